"""How long an answer is kept, and how long it is fresh."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

JITTER = 0.1
"""Share by which a time to live is varied either way."""


@dataclass(frozen=True, slots=True)
class Freshness:
    """Times by task type."""

    ttl_s: float
    """How long an answer is fresh where its task type has no time of its own."""
    ttl_s_by_task_type: Mapping[str, float] = field(default_factory=dict)
    stale_s_by_task_type: Mapping[str, float] = field(default_factory=dict)
    """How much longer an answer may be given while it is made anew."""
    uncached_task_types: frozenset[str] = frozenset()
    """Task types whose answers are never kept."""

    def is_kept(self, task_type: str) -> bool:
        """Tells whether answers of a task type are kept at all."""
        return task_type not in self.uncached_task_types

    def fresh_s(self, task_type: str, asked_s: float | None) -> float:
        """Returns how long an answer is fresh, in seconds; what its request asks for comes first."""
        return asked_s if asked_s is not None else self.ttl_s_by_task_type.get(task_type, self.ttl_s)

    def stale_s(self, task_type: str) -> float:
        """Returns how much longer it may be given, in seconds."""
        return self.stale_s_by_task_type.get(task_type, 0.0)


def jittered_ttl_ms(seconds: float, fraction: float) -> int:
    """Returns a time to live within 10 % of `seconds`, in ms, and at least 1.

    Answers that were stored together must not all expire together, or their requests come back
    as one burst.

    Args:
        seconds: The time that is meant.
        fraction: A random number from 0 up to 1.
    """
    return max(1, round(seconds * 1000 * (1 - JITTER + 2 * JITTER * fraction)))
