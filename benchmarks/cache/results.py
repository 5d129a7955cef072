"""What `make bench-cache` keeps: the figures of its last good run of each part.

A part that cannot be run, or is left out, keeps the figures that it had. What nobody has measured yet is null.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

SCHEMA: Mapping[str, Any] = {
    "pairs": {cache: {"en": None, "zh": None} for cache in ("tiermesh", "gptcache", "redisvl")},
    "latency": {"exact": {}, "semantic": {}},
    "prefix_hit_rate": {"normalised": None, "raw": None},
    "mooncake_block_hit_rate": None,
}
"""The shape of `cache.json`; a part's figures have the shape of some of its branches."""


class CannotRun(Exception):
    """A part lacks something; the message says what, and what to do about it."""


class Results:
    """Figures and details, in two files of a folder.

    Args:
        folder: Where `cache.json` and `cache_detail.json` are.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        before = _read(folder / "cache.json")
        self.figures = merged(SCHEMA, {name: before[name] for name in SCHEMA if name in before})
        self.detail = _read(folder / "cache_detail.json")

    def keep(self, part: str, figures: Mapping[str, Any], detail: Mapping[str, Any], *, took_s: float) -> None:
        """Takes the figures of a part that has run, and writes both files."""
        self.figures = merged(self.figures, figures)
        parts = {**self.detail.get("parts", {}), part: {"at": _now(), "took_s": round(took_s, 1)}}
        self.detail = merged(self.detail, {**detail, "parts": parts})
        self._folder.mkdir(parents=True, exist_ok=True)
        for name, content in (("cache.json", self.figures), ("cache_detail.json", self.detail)):
            fresh = self._folder / f"{name}.new"
            fresh.write_text(json.dumps(content, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")
            fresh.replace(self._folder / name)

    def measured_at(self, part: str) -> str | None:
        """Returns when a part ran last, or None where it never did."""
        at: str | None = self.detail.get("parts", {}).get(part, {}).get("at")
        return at


def merged(old: Mapping[str, Any], new: Mapping[str, Any]) -> dict[str, Any]:
    """Returns `old` with what `new` knows better; null knows nothing."""
    result = dict(old)
    for name, value in new.items():
        if isinstance(value, Mapping) and isinstance(result.get(name), Mapping):
            result[name] = merged(result[name], value)
        elif value is not None:
            result[name] = value
    return result


def _read(path: Path) -> dict[str, Any]:
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return content if isinstance(content, dict) else {}


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")
