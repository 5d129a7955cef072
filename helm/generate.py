"""Writes the chart's values.schema.json: the hand-written part, and the sections of tiermesh.yaml from the code.

Run `python helm/generate.py` after a change of the configuration's schema or of values.schema.yaml; with `--check` it
only says whether the file is up to date.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml
from tiermesh.shared.config import (
    CacheConfig,
    DeadlineConfig,
    LimitsConfig,
    LoggingConfig,
    RouterConfig,
    ServiceConfig,
    TierConfig,
    TracingConfig,
)

HERE = Path(__file__).parent
SOURCE = HERE / "values.schema.yaml"
TARGET = HERE / "tiermesh" / "values.schema.json"

SECTIONS: Mapping[str, tuple[type[Any], frozenset[str]]] = {
    "limits": (LimitsConfig, frozenset()),
    "deadlines": (DeadlineConfig, frozenset()),
    "router": (RouterConfig, frozenset({"replicas"})),
    "classifier": (ServiceConfig, frozenset({"replicas"})),
    "cache": (CacheConfig, frozenset({"replicas", "redis_url", "max_memory_mb"})),
    "tier": (TierConfig, frozenset({"replicas", "name"})),
    "tracing": (TracingConfig, frozenset({"kept_traces"})),
    "logging": (LoggingConfig, frozenset()),
}
"""Section, its class, and the keys that the chart's own values stand for or that mean nothing on Kubernetes."""

_NOISE = frozenset({"title", "default", "description"})


def make_schema() -> str:
    """Returns the text of values.schema.json."""
    source = yaml.safe_load(SOURCE.read_text(encoding="utf-8"))
    fragments = source.pop("fragments")
    schema = _merge(source, fragments)
    for name, (section, without) in SECTIONS.items():
        schema["definitions"][name] = make_section(section, without)
    return json.dumps(schema, indent=2, ensure_ascii=False) + "\n"


def make_section(section: type[Any], without: frozenset[str]) -> dict[str, Any]:
    """Returns the JSON schema of a section of tiermesh.yaml, without some of its keys.

    Raises:
        ValueError: a key to be left out is not there, or the section refers to another, which this does not follow.
    """
    schema = section.model_json_schema()
    unknown = without - set(schema["properties"])
    if unknown or "$defs" in schema:
        raise ValueError(f"{section.__name__}: cannot be written ({', '.join(sorted(unknown)) or 'has references'})")
    schema["properties"] = {key: _plain(value) for key, value in schema["properties"].items() if key not in without}
    schema["required"] = [key for key in schema.get("required", ()) if key not in without]
    return {key: value for key, value in schema.items() if key not in _NOISE and value != []}


def _plain(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _plain(item) for key, item in value.items() if key not in _NOISE}
    return value


def _merge(value: Any, fragments: Mapping[str, Any]) -> Any:
    """Replaces each `$merge: name` by the keys of that fragment."""
    if isinstance(value, list):
        return [_merge(item, fragments) for item in value]
    if not isinstance(value, dict):
        return value
    merged = {key: _merge(item, fragments) for key, item in value.items() if key != "$merge"}
    return merged | _merge(fragments[value["$merge"]], fragments) if "$merge" in value else merged


def main(arguments: list[str]) -> int:
    """Writes the file, or with `--check` compares it; returns the exit status."""
    text = make_schema()
    if "--check" in arguments:
        if TARGET.read_text(encoding="utf-8") == text:
            return 0
        print(f"{TARGET.name} is out of date: run python helm/generate.py", file=sys.stderr)
        return 1
    TARGET.write_text(text, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
