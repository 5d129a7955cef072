"""Which circuit breakers are open, as this router's own calls have found them.

Envoy holds the breakers and refuses by them; it tells nobody before it refuses. So a breaker counts as
open from a refusal until the next call of the same priority gets through, or until none has been
refused for `MEMORY_S`. Requests are sent to a tier whose breaker is open all the same: a refusal
takes Envoy no time, and a place may have become free. Only escalations are not.
"""

from __future__ import annotations

from collections.abc import Iterator

from tiermesh.router.policy.lanes import priority_name
from tiermesh.shared.clock import Clock

MEMORY_S = 1.0
"""Seconds after the last refusal for which a breaker counts as open while nothing gets through."""


class Breakers:
    """The breakers of every tier and priority."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._refused_at: dict[tuple[str, str], float] = {}

    def refused(self, tier: str, priority: int) -> None:
        """Notes that a call of that priority was refused."""
        self._refused_at[tier, priority_name(priority)] = self._clock.monotonic()

    def passed(self, tier: str, priority: int) -> None:
        """Notes that a call of that priority got through."""
        if self._refused_at:
            self._refused_at.pop((tier, priority_name(priority)), None)

    def open_for(self, priority: int) -> frozenset[str]:
        """Returns the tiers whose breaker is open for requests of that priority."""
        name = priority_name(priority)
        return frozenset(tier for tier, of in self.open() if of == name)

    def open(self) -> Iterator[tuple[str, str]]:
        """Yields tier and priority (`interactive` or `batch`) of every open breaker."""
        oldest = self._clock.monotonic() - MEMORY_S
        yield from (key for key, at in self._refused_at.items() if at > oldest)
