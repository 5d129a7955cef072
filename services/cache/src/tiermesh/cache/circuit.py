"""Whether to try the store at all.

    closed    every call is let through; `threshold` failures in a row open it
    open      no call is let through until a pause is over
    probing   one call is let through; it closes the circuit or doubles the pause

A pure state machine over an injected clock. A call counts as a success only when it was in time:
a store that answers late is of no use to callers who do not wait.
"""

from __future__ import annotations

from enum import Enum

from tiermesh.shared.clock import Clock


class Admission(Enum):
    """What the circuit says to a call."""

    REFUSED = "refused"
    PASSED = "passed"
    PROBE = "probe"


class Circuit:
    """Remembers how the last calls went.

    Args:
        clock: Measures the pauses.
        threshold: Failures in a row that open the circuit.
        first_pause_s: Pause before the first probe.
        longest_pause_s: Bound of the pauses, which double.
    """

    def __init__(
        self, clock: Clock, *, threshold: int = 3, first_pause_s: float = 0.1, longest_pause_s: float = 1.0
    ) -> None:
        self._clock = clock
        self._threshold = threshold
        self._first_pause = first_pause_s
        self._longest_pause = longest_pause_s
        self._pause = first_pause_s
        self._failures = 0
        self._open_until: float | None = None
        self._probing = False

    @property
    def is_open(self) -> bool:
        """Whether calls are refused, or one is probing."""
        return self._open_until is not None

    def admit(self) -> Admission:
        """Says whether a call may be made; each admission must be answered by one of the methods below."""
        if self._open_until is None:
            return Admission.PASSED
        if self._probing or self._clock.monotonic() < self._open_until:
            return Admission.REFUSED
        self._probing = True
        return Admission.PROBE

    def succeeded(self, admission: Admission) -> None:
        """Closes the circuit: a call was answered in time."""
        del admission  # Any call in time says that the store is well, whenever it was admitted.
        self._failures = 0
        self._open_until = None
        self._probing = False
        self._pause = self._first_pause

    def failed(self, admission: Admission) -> None:
        """Counts a call that was not answered in time, or failed."""
        if admission is Admission.PROBE and self._probing:
            self._probing = False
            self._pause = min(self._pause * 2, self._longest_pause)
            self._open_until = self._clock.monotonic() + self._pause
        elif self._open_until is None:
            self._failures += 1
            if self._failures >= self._threshold:
                self._open_until = self._clock.monotonic() + self._pause

    def abandoned(self, admission: Admission) -> None:
        """Takes back a call whose caller went before it could say anything about the store."""
        if admission is Admission.PROBE:
            self._probing = False
