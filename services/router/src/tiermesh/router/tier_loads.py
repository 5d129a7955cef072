"""How busy each tier is, as its engines tell."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from tiermesh.shared.clock import Clock

STALE_S = 2.0
"""Seconds after the end of a tier's reports for which the last one still counts."""


@dataclass(frozen=True, slots=True)
class TierLoad:
    """One report of one engine of a tier."""

    running: int
    waiting: int
    slots: int
    queue_limit: int

    @property
    def has_free_slot(self) -> bool:
        """Whether a prompt would begin at once."""
        return not self.waiting and self.running < self.slots

    def backlogged(self, waiting_per_slot: float) -> bool:
        """Returns whether too many prompts wait: `waiting_per_slot` for each slot, or as many as may."""
        if not self.waiting:
            return False
        return self.waiting >= waiting_per_slot * self.slots or self.waiting >= self.queue_limit


class TierLoads:
    """The last report of each tier. A tier that reports nothing counts as neither busy nor free."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._loads: dict[str, TierLoad] = {}
        self._ended_at: dict[str, float] = {}

    def report(self, tier: str, load: TierLoad) -> None:
        """Takes a report in. It counts until the next: an engine reports every change."""
        self._loads[tier] = load
        self._ended_at.pop(tier, None)

    def ended(self, tier: str) -> None:
        """Notes that the tier's reports have ended; the last one counts for `STALE_S` more."""
        if tier in self._loads:
            self._ended_at.setdefault(tier, self._clock.monotonic())

    def current(self) -> Mapping[str, TierLoad]:
        """Returns every load that still counts."""
        if self._ended_at:
            oldest = self._clock.monotonic() - STALE_S
            for tier in [tier for tier, at in self._ended_at.items() if at < oldest]:
                del self._ended_at[tier]
                self._loads.pop(tier, None)
        return self._loads
