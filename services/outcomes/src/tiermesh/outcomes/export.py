"""Records as a file: JSON lines, or Parquet by `tiermesh.outcomes.parquet`."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

from tiermesh.api.outcome.v1 import record_pb2
from tiermesh.shared.outcomes import write_outcome


def write_jsonl(outcomes: Iterable[record_pb2.Outcome], path: Path) -> int:
    """Writes one record a line; returns how many.

    Raises:
        OSError: the file cannot be written.
    """
    count = 0
    with whole_file(path) as fresh, fresh.open("w", encoding="utf-8", newline="\n") as lines:
        for outcome in outcomes:
            lines.write(write_outcome(outcome) + "\n")
            count += 1
    return count


@contextmanager
def whole_file(path: Path) -> Iterator[Path]:
    """Yields where to write; the file is put in its place only once it is whole, readable by its owner alone.

    Raises:
        OSError: it cannot be put there.
    """
    fresh = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        os.close(os.open(fresh, os.O_CREAT | os.O_WRONLY | os.O_TRUNC, 0o600))
        yield fresh
        fresh.replace(path)
    finally:
        fresh.unlink(missing_ok=True)
