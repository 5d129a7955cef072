"""Which tier is enough for which kind of work: pure.

For each task type the score of every tier, and the cheapest whose score is within a tolerance of the best one's. What an
evaluation set says is paired: every tier answered the same requests, so the difference of two tiers is known better than
either score. A traffic log is not: each request was answered by one tier, and whoever routes well sends it the easy ones.
Its requests are weighed by the inverse of the probability with which the tier was asked (self-normalised importance
sampling; A. Swaminathan and T. Joachims, "The self-normalized estimator for counterfactual learning", 2015); where
nothing was random, that changes nothing, and the report says that its scores cannot be compared.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

_Z = 1.959963984540054
"""Of a two-sided 95% interval."""
LEAST_PER_TYPE = 30
"""Task types with fewer requests are shown together as `other`."""
OTHER = "other"


@dataclass(frozen=True, slots=True)
class Evaluated:
    """One request, and how good the answers to it were."""

    task_type: str
    scores: Mapping[str, float]
    """By tier, 0 to 1; those that are known."""
    prompt_tokens: int = 0
    answer_tokens: Mapping[str, int] = field(default_factory=dict)
    """By tier."""
    weight: float = 1.0
    """How many requests it stands for."""
    random: bool = True
    """Whether any tier could have been asked; always so where all were."""


@dataclass(frozen=True, slots=True)
class TierPrice:
    """Of a million tokens."""

    prompt: float
    answer: float


@dataclass(frozen=True, slots=True)
class TierScore:
    """How a tier does at one kind of work."""

    tier: str
    count: int
    score: float
    margin: float
    """Half of the 95% interval of `score`."""
    gap: float
    """How far it is behind the best tier."""
    gap_bound: float
    """The most that any other tier may be ahead: the highest upper end of the 95% intervals of their leads."""
    cost: float | None
    """Of a thousand such requests; None where prices or token counts are not known."""


@dataclass(frozen=True, slots=True)
class TypeReport:
    """One kind of work."""

    task_type: str
    count: int
    tiers: tuple[TierScore, ...]
    """From the cheapest to the strongest."""
    best: str
    pick: str
    """The cheapest tier within the tolerance of the best."""
    is_sure: bool
    """Whether even the most that another tier may be ahead of it is within the tolerance."""
    saving: float | None
    """Share of the strongest tier's cost that the pick saves."""
    is_comparable: bool
    """Whether its tiers answered requests that were alike."""


def report(
    rows: Iterable[Evaluated], *, tiers: Sequence[str], within: float, prices: Mapping[str, TierPrice]
) -> list[TypeReport]:
    """Returns what each kind of work needs, the most frequent first.

    Args:
        rows: Requests with scores.
        tiers: From the cheapest to the strongest.
        within: How much worse than the best a tier may be, such as 0.03.
        prices: Of tiers, where known.

    Raises:
        ValueError: there are no rows, or a row names a tier that is not among `tiers`.
    """
    by_type: dict[str, list[Evaluated]] = {}
    for row in rows:
        unknown = row.scores.keys() - set(tiers)
        if unknown:
            raise ValueError(f"tier {min(unknown)!r} is not among {', '.join(tiers)}")
        by_type.setdefault(row.task_type, []).append(row)
    if not by_type:
        raise ValueError("there are no requests with scores")
    small = [name for name, found in by_type.items() if len(found) < LEAST_PER_TYPE and name != OTHER]
    if len(by_type) > 1 and small:
        pooled = by_type.setdefault(OTHER, [])
        for name in small:
            pooled += by_type.pop(name)
    reports = [_report(name, found, tiers, within, prices) for name, found in by_type.items()]
    return sorted(reports, key=lambda each: (-each.count, each.task_type))


def _report(
    task_type: str, rows: Sequence[Evaluated], tiers: Sequence[str], within: float, prices: Mapping[str, TierPrice]
) -> TypeReport:
    present = [tier for tier in tiers if any(tier in row.scores for row in rows)]
    means = {tier: _mean([(row.scores[tier], row.weight) for row in rows if tier in row.scores]) for tier in present}
    # Of equal ones the cheapest.
    best = max(present, key=lambda tier: (means[tier][0], -present.index(tier)))
    scores = []
    for tier in present:
        mean, error, count = means[tier]
        gap, _ = _gap(rows, best, tier, means)
        bound = max(lead + _Z * unsure for lead, unsure in (_gap(rows, other, tier, means) for other in present))
        scores.append(TierScore(tier, count, mean, _Z * error, gap, bound, _cost(rows, tier, prices.get(tier))))
    pick = next(each for each in scores if each.gap <= within)
    strongest = scores[-1]
    saving = None
    if pick.cost is not None and strongest.cost:
        saving = 1.0 - pick.cost / strongest.cost
    comparable = all(row.random for row in rows)
    return TypeReport(
        task_type,
        len(rows),
        tuple(scores),
        best,
        pick.tier,
        comparable and pick.gap_bound <= within,
        saving,
        comparable,
    )


def _mean(values: Sequence[tuple[float, float]]) -> tuple[float, float, int]:
    """Returns the weighted mean, its standard error, and the number of values."""
    total = math.fsum(weight for _, weight in values)
    mean = math.fsum(value * weight for value, weight in values) / total
    # Scores that are all equal have no spread, but are no proof either.
    spread = math.fsum((weight * (value - mean)) ** 2 for value, weight in values) / total**2
    return mean, math.sqrt(max(spread, _least_variance(len(values)))), len(values)


def _least_variance(count: int) -> float:
    """Returns the least variance of the mean of `count` scores: that of a share of 1 in `count + 2` (Laplace)."""
    share = 1.0 / (count + 2)
    return share * (1.0 - share) / (count + 2)


def _gap(
    rows: Sequence[Evaluated], other: str, tier: str, means: Mapping[str, tuple[float, float, int]]
) -> tuple[float, float]:
    """Returns how far a tier is behind another, and the standard error of that."""
    if tier == other:
        return 0.0, 0.0
    paired = [
        (row.scores[other] - row.scores[tier], row.weight) for row in rows if other in row.scores and tier in row.scores
    ]
    if len(paired) == min(means[other][2], means[tier][2]):
        gap, error, _ = _mean(paired)
        return gap, error
    return means[other][0] - means[tier][0], math.hypot(means[other][1], means[tier][1])


def _cost(rows: Sequence[Evaluated], tier: str, price: TierPrice | None) -> float | None:
    if price is None or price.prompt + price.answer <= 0:
        return None
    known = [row for row in rows if row.prompt_tokens or row.answer_tokens.get(tier)]
    if not known:
        return None
    # An answer that this tier has not given is taken to be as long as those of the others.
    tokens = [(row.prompt_tokens, row.answer_tokens.get(tier, _typical(row.answer_tokens))) for row in known]
    whole = math.fsum(price.prompt * prompt + price.answer * answer for prompt, answer in tokens)
    return whole / 1e6 / len(known) * 1000


def _typical(counts: Mapping[str, int]) -> float:
    return sum(counts.values()) / len(counts) if counts else 0.0
