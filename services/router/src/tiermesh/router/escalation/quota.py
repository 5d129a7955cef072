"""How many escalations are allowed: a token bucket filled by traffic, not by time.

Every request that goes to an engine adds a share of a token, and every escalation takes a whole one.
Escalations thus stay a share of the traffic whatever its rate, and a fault that makes every answer look
bad cannot move all of it to the strongest tier.

Each router has a bucket of its own. That keeps the share for the whole mesh, since each earns from the
traffic that it sees; what may be saved up is divided by the number of routers, so that the mesh has one
burst and not one a router. A bucket that all share would put a call to another process between a doubt
and its answer, to bound what this bounds already.
"""

from __future__ import annotations

from collections.abc import Callable

_SLACK = 1e-9
"""Ten times a tenth is a whole, whatever binary fractions say."""


class EscalationQuota:
    """The bucket of one router; it begins full.

    Args:
        burst: Most that the mesh may have saved up in the beginning.
        routers: Returns how many routers share it.
    """

    def __init__(self, *, burst: int, routers: Callable[[], int] = lambda: 1) -> None:
        self._routers = routers
        self._tokens = self._most(burst)

    def earn(self, *, share: float, burst: int) -> None:
        """Notes a request that goes to an engine.

        Args:
            share: Escalations allowed per request.
            burst: Most that the mesh may have saved up.
        """
        self._tokens = min(self._most(burst), self._tokens + share)

    @property
    def open(self) -> bool:
        """Whether an escalation is allowed now."""
        return self._tokens >= 1.0 - _SLACK

    def take(self) -> None:
        """Notes an escalation."""
        self._tokens = max(0.0, self._tokens - 1.0)

    def _most(self, burst: int) -> float:
        # Less than one escalation could never be taken.
        return max(1.0, burst / max(1, self._routers()))
