"""Who shares one run, for whose request it is run, and who takes over when it fails: a pure state machine.

running ── a member joins, or leaves while others stay ─► running
   ├────── the last member leaves ──────────────────────► over: the run is cancelled
   ├────── the run ends ────────────────────────────────► over
   └────── the run fails ─┬─ for another member, too ───► over: everyone is told
                          └─ only for its leader ───────► running, for a successor
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from enum import Enum
from typing import Generic, TypeVar

from tiermesh.shared.errors import (
    DeadlineError,
    InvalidRequest,
    NotApplicable,
    TenantForbidden,
    TiermeshError,
    Unauthenticated,
)

_M = TypeVar("_M")
MAX_SUCCESSORS = 2
"""Members that take over after failures other than a deadline's. Past that the mesh is in trouble, not the leader,
and a crowd of identical requests must not try it one by one."""


class Verdict(Enum):
    """What becomes of the run."""

    GOES_ON = "goes on"
    CANCELLED = "cancelled"
    OVER = "over"


@dataclass(frozen=True, slots=True)
class Promoted(Generic[_M]):
    """Another member's request is run now."""

    member: _M


class Crew(Generic[_M]):
    """The members of one run, by value.

    Args:
        first: The first member.
        deadline: When it must have its answer, in seconds on a monotonic clock.
        now: When the run began.
        leads: Whether the run is for its request; if not, it is led from elsewhere.
    """

    def __init__(self, first: _M, *, deadline: float, now: float, leads: bool = True) -> None:
        self._deadlines: dict[_M, float] = {first: deadline}
        self._leader: _M | None = first if leads else None
        self._began = now
        self._successors = 0
        self._over = False

    @property
    def members(self) -> tuple[_M, ...]:
        """Those who wait for the answer, in the order in which they came."""
        return tuple(self._deadlines)

    def __iter__(self) -> Iterator[_M]:
        """Those who wait for the answer; not to be changed meanwhile."""
        return iter(self._deadlines)

    @property
    def is_over(self) -> bool:
        """Whether nobody may join any more."""
        return self._over

    def join(self, member: _M, *, deadline: float) -> None:
        """Takes a member in; not once it is over."""
        assert not self._over
        self._deadlines[member] = deadline

    def leave(self, member: _M) -> Verdict:
        """Lets a member go, the leader included: its run then goes on for the others."""
        self._deadlines.pop(member, None)
        if self._over or self._deadlines:
            return Verdict.GOES_ON
        self._over = True
        return Verdict.CANCELLED

    def complete(self) -> None:
        """Notes that the run has come to its end."""
        self._over = True

    def led_elsewhere(self) -> None:
        """Notes that the run is not made for the leader after all: its failure is no member's."""
        self._leader = None

    def failed(self, error: TiermeshError, *, now: float) -> Promoted[_M] | Verdict:
        """Says what follows on a run that failed. Its leader gets `error` whatever comes of it.

        The member with the most time left takes over, so that the next run outlasts all others.

        Args:
            error: What the run ended with.
            now: When it failed.
        """
        leader, took = self._leader, now - self._began
        if leader is not None:
            self._deadlines.pop(leader, None)
        successor = max(self._deadlines, key=self._deadlines.__getitem__, default=None)
        if successor is None or not self._may_succeed(error, left=self._deadlines[successor] - now, took=took):
            self._over = True
            return Verdict.OVER
        self._leader, self._began = successor, now
        return Promoted(successor)

    def diverged(self) -> None:
        """Notes that a successor's answer does not go on where the earlier one broke off."""
        self._over = True

    def _may_succeed(self, error: TiermeshError, *, left: float, took: float) -> bool:
        if isinstance(error, DeadlineError):
            # What was not done within that time will not be done in less.
            return left > took
        if isinstance(error, InvalidRequest | TenantForbidden | Unauthenticated | NotApplicable):
            return False
        self._successors += 1
        return self._successors <= MAX_SUCCESSORS and left > 0
