"""Says how far a long step is: in place on a terminal, a line every few seconds in a log."""

from __future__ import annotations

import sys
import time

_EVERY_S = 5.0


class Progress:
    """Counts one step.

    Args:
        name: What is counted.
        total: How many there are.
    """

    def __init__(self, name: str, total: int) -> None:
        self._name = name
        self._total = total
        self._done = 0
        self._said_at = self._began = time.monotonic()

    def step(self, count: int = 1) -> None:
        """Counts; says so now and then."""
        self._done += count
        now = time.monotonic()
        if now - self._said_at < _EVERY_S:
            return
        self._said_at = now
        left_s = (now - self._began) / self._done * (self._total - self._done)
        text = f"  {self._name}: {self._done:,} of {self._total:,}, about {left_s:.0f} s left"
        if sys.stderr.isatty():
            print(f"\r\x1b[K{text}", end="\r", file=sys.stderr, flush=True)
        else:
            print(text, file=sys.stderr, flush=True)
