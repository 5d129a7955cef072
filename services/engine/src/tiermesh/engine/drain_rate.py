"""How fast a queue empties, measured while there is one."""

from __future__ import annotations

from collections import deque

_REMEMBERED = 32
_ENOUGH = 3


class DrainRate:
    """Starts per second out of a queue, over the last ones.

    Only time in which something waited counts: an idle hour says nothing about how long the next
    queue will take.
    """

    def __init__(self) -> None:
        self._gaps: deque[float] = deque(maxlen=_REMEMBERED)
        self._since: float | None = None

    def waits(self, now: float) -> None:
        """Notes that something waits from now on."""
        if self._since is None:
            self._since = now

    def started(self, now: float, *, still_waiting: bool) -> None:
        """Notes that something that waited has started."""
        if self._since is not None:
            self._gaps.append(now - self._since)
        self._since = now if still_waiting else None

    def emptied(self) -> None:
        """Notes that the last thing that waited went away without having started."""
        self._since = None

    @property
    def per_second(self) -> float | None:
        """Starts per second, or None where too few are known."""
        total = sum(self._gaps)
        return len(self._gaps) / total if len(self._gaps) >= _ENOUGH and total > 0 else None
