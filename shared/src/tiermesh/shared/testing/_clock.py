"""A clock that tests move by hand."""

from __future__ import annotations


class FakeClock:
    """Time that stands still until `advance` is called."""

    def __init__(self, monotonic: float = 1000.0, wall: float = 1_700_000_000.0) -> None:
        self._monotonic = monotonic
        self._wall = wall

    def monotonic(self) -> float:
        """Seconds since an arbitrary point."""
        return self._monotonic

    def wall(self) -> float:
        """Seconds since the Unix epoch."""
        return self._wall

    def advance(self, seconds: float) -> None:
        """Moves time forward.

        Raises:
            ValueError: `seconds` is negative.
        """
        if seconds < 0:
            raise ValueError("time does not go back")
        self._monotonic += seconds
        self._wall += seconds
