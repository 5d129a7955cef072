"""How many escalations are allowed: a token bucket filled by traffic, not by time.

Every request that goes to an engine adds a share of a token, and every escalation takes a whole one.
Escalations thus stay a share of the traffic whatever its rate, and a fault that makes every answer look
bad cannot move all of it to the strongest tier.
"""

from __future__ import annotations

_SLACK = 1e-9
"""Ten times a tenth is a whole, whatever binary fractions say."""


class EscalationQuota:
    """The bucket of one router; it begins full."""

    def __init__(self, *, burst: int) -> None:
        self._tokens = float(burst)

    def earn(self, *, share: float, burst: int) -> None:
        """Notes a request that goes to an engine.

        Args:
            share: Escalations allowed per request.
            burst: Most that may be saved up.
        """
        self._tokens = min(float(burst), self._tokens + share)

    @property
    def open(self) -> bool:
        """Whether an escalation is allowed now."""
        return self._tokens >= 1.0 - _SLACK

    def take(self) -> None:
        """Notes an escalation."""
        self._tokens = max(0.0, self._tokens - 1.0)
