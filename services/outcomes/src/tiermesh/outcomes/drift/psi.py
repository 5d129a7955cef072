"""The population stability index, and how large it becomes by chance: pure functions.

    PSI = sum over bins of (a - e) * ln(a / e)

with `e` the reference's share of a bin and `a` the window's; it is the divergence of Jeffreys (1946), under this name
in N. Siddiqi, "Credit Risk Scorecards" (2006), who also gives the customary marks 0.1 and 0.25.

Those marks know nothing of sample sizes. Where both samples come from one distribution, PSI is distributed as
(1/N + 1/M) times chi-squared with B - 1 degrees of freedom, for B bins and N and M values (B. Yurdakul and J. Naranjo,
"Statistical properties of the population stability index", Journal of Risk Model Validation, 2020); a PSI below the
99th percentile of that says nothing.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

_PSEUDO_COUNT = 0.5
"""Added to every bin of both, so that an empty one gives no infinity, and counts for the less the larger the sample."""
_Z99 = 2.3263478740408408
"""99th percentile of the standard normal distribution."""


def stability_index(reference: Sequence[float], window: Sequence[float]) -> float:
    """Returns the population stability index of two histograms over the same bins, 0 for the same shares.

    Args:
        reference: Count of each bin.
        window: Likewise.

    Raises:
        ValueError: they have different numbers of bins, or none.
    """
    if len(reference) != len(window) or not reference:
        raise ValueError(f"histograms over the same bins are needed, not {len(reference)} and {len(window)}")
    expected, actual = _shares(reference), _shares(window)
    return math.fsum((a - e) * math.log(a / e) for e, a in zip(expected, actual, strict=True))


def chance_index(bins: int, reference_count: float, window_count: float) -> float:
    """Returns the index that two samples of one distribution exceed once in a hundred times.

    The percentile of chi-squared is that of Wilson and Hilferty (1931), right within 1% from 2 degrees of freedom on.

    Args:
        bins: Number of bins.
        reference_count: Values in the reference, above 0.
        window_count: Values in the window, above 0.
    """
    if bins < 2:
        return 0.0
    degrees = bins - 1
    spread = 2.0 / (9.0 * degrees)
    percentile = degrees * (1.0 - spread + _Z99 * math.sqrt(spread)) ** 3
    return percentile * (1.0 / reference_count + 1.0 / window_count)


def _shares(counts: Sequence[float]) -> list[float]:
    total = math.fsum(counts) + _PSEUDO_COUNT * len(counts)
    return [(count + _PSEUDO_COUNT) / total for count in counts]
