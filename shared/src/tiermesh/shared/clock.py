"""Time as a value that is passed in, so that deadlines can be tested without waiting."""

from __future__ import annotations

import time
from typing import Protocol


class Clock(Protocol):
    """A source of time."""

    def monotonic(self) -> float:
        """Seconds since an arbitrary point; never goes back."""
        ...

    def wall(self) -> float:
        """Seconds since the Unix epoch; for labels and storage, never for deadlines."""
        ...


class SystemClock:
    """The machine's own clock."""

    def monotonic(self) -> float:
        """Seconds since an arbitrary point; never goes back."""
        return time.monotonic()

    def wall(self) -> float:
        """Seconds since the Unix epoch."""
        return time.time()  # noqa: TID251 -- the one place that reads the wall clock


SYSTEM_CLOCK = SystemClock()
