"""How sure a share is."""

from __future__ import annotations

Z = 1.959964
"""For 95 %."""


def wilson(count: int, n: int) -> tuple[float, float]:
    """Returns the 95 % interval of a share (E. B. Wilson, 1927)."""
    if n == 0:
        return 0.0, 1.0
    share, square = count / n, Z * Z
    middle = (share + square / (2 * n)) / (1 + square / n)
    half = Z * ((share * (1 - share) + square / (4 * n)) / n) ** 0.5 / (1 + square / n)
    return max(0.0, middle - half), min(1.0, middle + half)


def percent(count: int, n: int) -> str:
    """Returns a share with its interval, such as `1.20% [0.61, 2.34]`."""
    low, high = wilson(count, n)
    return f"{100 * count / max(n, 1):.2f}% [{100 * low:.2f}, {100 * high:.2f}]"
