"""Done-markers: a step that was done for the same inputs is not done again."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence
from pathlib import Path


def digest_of(files: Iterable[Path], extra: Sequence[str] = ()) -> str:
    """Returns a hash of the contents of files and of further words."""
    total = hashlib.sha256()
    for word in extra:
        total.update(word.encode() + b"\0")
    for file in files:
        total.update(file.name.encode() + b"\0" + file.read_bytes() + b"\0")
    return total.hexdigest()[:16]


def is_done(marker: Path, digest: str) -> bool:
    """Whether `mark_done` was called with the same digest."""
    try:
        return marker.read_text(encoding="utf-8").strip() == digest
    except OSError:
        return False


def mark_done(marker: Path, digest: str) -> None:
    """Records that a step is done."""
    marker.write_text(digest + "\n", encoding="utf-8")
