"""How long an answer is kept."""

from __future__ import annotations

JITTER = 0.1
"""Share by which a time to live is varied either way."""


def jittered_ttl_ms(seconds: float, fraction: float) -> int:
    """Returns a time to live within 10 % of `seconds`, in ms, and at least 1.

    Answers that were stored together must not all expire together, or their requests come back
    as one burst.

    Args:
        seconds: The time that is meant.
        fraction: A random number from 0 up to 1.
    """
    return max(1, round(seconds * 1000 * (1 - JITTER + 2 * JITTER * fraction)))
