"""Whether a request may move to a stronger tier, and to which: a pure function of values.

Gates, in this order; the first that is shut is the one that is named:

    capability   a stronger tier can take the request and has not been tried
    health       it has not just failed
    load         it has room
    quota        escalations are still within their share of the traffic
    budget       what is left covers its predicted 95th percentile and a margin
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

CAPABILITY, HEALTH, LOAD, QUOTA, BUDGET = "capability", "health", "load", "quota", "budget"
SKIPPED_PREFIX = "escalation_skipped="
"""Begins the reason of an answer that was not good enough and given all the same."""
_ORDER = (CAPABILITY, HEALTH, LOAD, QUOTA, BUDGET)


@dataclass(frozen=True, slots=True)
class Target:
    """A tier that could be asked instead, as it looks now."""

    tier: str
    healthy: bool
    has_room: bool
    p95_s: float
    """Predicted 95th percentile of its answer, in seconds."""


@dataclass(frozen=True, slots=True)
class Gates:
    """Where an escalation may go."""

    tier: str | None
    """The tier to ask, or None."""
    shut: str = ""
    """The gate that is shut; empty where `tier` is set."""


def pass_gates(targets: Sequence[Target], *, quota_open: bool, left_s: float, margin_s: float) -> Gates:
    """Returns the first of `targets`, in order of preference, for which every gate is open.

    Args:
        targets: Stronger tiers that can take the request and have not been tried.
        quota_open: Whether an escalation is within its share of the traffic.
        left_s: Seconds left for an engine.
        margin_s: Seconds that must be left after the predicted time.
    """
    shut = CAPABILITY
    for target in targets:
        found = _shut_gate(target, quota_open=quota_open, left_s=left_s, margin_s=margin_s)
        if not found:
            return Gates(target.tier)
        # The gate named is the last that any tier came to: what would have to change.
        shut = max(shut, found, key=_ORDER.index)
    return Gates(None, shut)


def skipped(gate: str) -> str:
    """Returns the reason that a label carries where `gate` was shut."""
    return f"{SKIPPED_PREFIX}{gate}"


def _shut_gate(target: Target, *, quota_open: bool, left_s: float, margin_s: float) -> str:
    if not target.healthy:
        return HEALTH
    if not target.has_room:
        return LOAD
    if not quota_open:
        return QUOTA
    return BUDGET if left_s < target.p95_s + margin_s else ""
