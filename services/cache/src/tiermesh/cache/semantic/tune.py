"""Which threshold to choose: a pure function of labelled lookups."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

_Z = 1.959964
"""For a 95 % interval."""


@dataclass(frozen=True, slots=True)
class Scored:
    """What the semantic tier saw in one labelled pair."""

    similarity: float
    """Likeness of the two questions, 0 to 1."""
    refused: bool
    """Whether a guard refuses whatever the threshold is."""
    same: bool
    """Whether a person says that both ask the same."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """What one threshold does with the labelled pairs."""

    threshold: float
    hit_rate: float
    """Share of the pairs that ask the same that are hits."""
    false_hit_rate: float
    """Share of all pairs that are hits and should not be."""
    false_hit_bound: float
    """Upper end of the 95 % interval of that share: what so few pairs can promise."""


def outcome(scored: Sequence[Scored], threshold: float) -> Outcome:
    """Returns what a threshold does.

    Raises:
        ValueError: there are no pairs.
    """
    if not scored:
        raise ValueError("no labelled pairs")
    hits = [pair for pair in scored if not pair.refused and pair.similarity >= threshold]
    same = sum(pair.same for pair in scored)
    false = sum(not pair.same for pair in hits)
    right = len(hits) - false
    return Outcome(threshold, right / same if same else 0.0, false / len(scored), upper_bound(false, len(scored)))


def recommend(scored: Sequence[Scored], *, target: float, least: float = 0.0) -> Outcome:
    """Returns the lowest threshold whose false hits, and those of every stricter one, stay within the target.

    Args:
        scored: Labelled pairs, best those of a route's own traffic.
        target: Largest share of false hits among lookups.
        least: No threshold below this is recommended.

    Raises:
        ValueError: there are no pairs.
    """
    steps = sorted({least, 1.0, *(_down(pair.similarity) for pair in scored if not pair.refused)}, reverse=True)
    best = outcome(scored, 1.0)
    for step in steps:
        if step < least:
            break
        found = outcome(scored, step)
        if found.false_hit_rate > target:
            break
        best = found
    return best


def upper_bound(count: int, n: int) -> float:
    """Returns the upper end of the 95 % interval of a share (E. B. Wilson, 1927)."""
    share, square = count / n, _Z * _Z
    middle = share + square / (2 * n)
    half = _Z * math.sqrt(share * (1 - share) / n + square / (4 * n * n))
    return min(1.0, (middle + half) / (1 + square / n))


def _down(similarity: float) -> float:
    # Three digits are what a person writes into a file; rounding down keeps the pair itself a hit.
    return max(0.0, math.floor(similarity * 1000) / 1000)
