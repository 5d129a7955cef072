"""Remembers which tiers have just failed, so that the next requests do not all wait to learn it.

This is no health check: Envoy watches the engines. It only saves repeated failures within the
second that Envoy needs to notice, and a tier in it is tried last, not left out.
"""

from __future__ import annotations

from tiermesh.shared.clock import Clock

MEMORY_S = 1.0
"""Seconds for which a failure counts."""


class TierHealth:
    """The last failure of each tier, as this router replica saw it.

    Args:
        clock: Time.
        memory_s: Seconds for which a failure counts.
    """

    def __init__(self, clock: Clock, *, memory_s: float = MEMORY_S) -> None:
        self._clock = clock
        self._memory_s = memory_s
        self._failed_at: dict[str, float] = {}

    def failed(self, tier: str) -> None:
        """Notes that a call of `tier` has just found it unavailable."""
        self._failed_at[tier] = self._clock.monotonic()

    def answered(self, tier: str) -> None:
        """Notes that `tier` works."""
        self._failed_at.pop(tier, None)

    def unavailable(self) -> frozenset[str]:
        """Returns the tiers that failed within `memory_s` seconds and have not answered since."""
        if not self._failed_at:
            return frozenset()
        oldest = self._clock.monotonic() - self._memory_s
        return frozenset(tier for tier, at in self._failed_at.items() if at > oldest)
