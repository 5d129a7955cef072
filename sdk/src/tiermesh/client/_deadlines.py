"""Deadlines of calls that name none: the lane's, and never below what an answer of the lane takes."""

from __future__ import annotations

import threading
from collections import deque
from enum import StrEnum

from tiermesh.shared.config import DeadlineConfig, LanesConfig

_REMEMBERED = 500
_ENOUGH = 50
"""Answers from which their 99th percentile means something."""
_HEADROOM = 1.25
"""A deadline at the 99th percentile itself would give up one answer in a hundred."""


class Lane(StrEnum):
    """What kind of request it is; the mesh decides for itself, and this only picks the default deadline."""

    SIMPLE = "simple"
    COMPLEX = "complex"
    BATCH = "batch"


class Deadlines:
    """Default deadlines by lane, from the lanes' table and from what answers have taken. Safe to share between threads.

    A deadline below the usual time gives up answers that were nearly there, and asking again
    doubles the load: so a default is never under the lane's own shares, nor under the measured
    99th percentile.

    Args:
        lanes: The table; that of the mesh's configuration, where it is known.
        longest_s: No default is longer; the mesh cuts longer deadlines anyway.
    """

    def __init__(self, lanes: LanesConfig | None = None, *, longest_s: float = DeadlineConfig().max_ms / 1000) -> None:
        self._lanes = lanes or LanesConfig()
        self._longest_s = longest_s
        self._taken: dict[Lane, deque[float]] = {lane: deque(maxlen=_REMEMBERED) for lane in Lane}
        self._lock = threading.Lock()

    def note(self, lane: Lane, seconds: float) -> None:
        """Notes what a complete answer has taken."""
        with self._lock:
            self._taken[lane].append(seconds)

    def typical_s(self, lane: Lane) -> float:
        """Returns the seconds that an answer usually takes at most: the measured 99th percentile, or the configured shares."""
        with self._lock:
            taken = sorted(self._taken[lane])
        if len(taken) >= _ENOUGH:
            return taken[int(len(taken) * 0.99)]
        table = self._lanes.table(lane)
        return (table.first_token_ms + table.finish_ms) / 1000

    def default_s(self, lane: Lane) -> float:
        """Returns the deadline, in seconds, of a call that names none."""
        table = self._lanes.table(lane)
        configured = max(table.deadline_ms, table.first_token_ms + table.finish_ms) / 1000
        return min(self._longest_s, max(configured, self.typical_s(lane) * _HEADROOM if self._measured(lane) else 0.0))

    def _measured(self, lane: Lane) -> bool:
        return len(self._taken[lane]) >= _ENOUGH
