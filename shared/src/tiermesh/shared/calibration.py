"""From what an answer looks like to the probability that it is right, and from that to when to escalate.

The probability is a logistic model of three features; the bands follow from how often a stronger
tier would have been right where this one was not. Both are fitted to a log of judged answers.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

LEAST_RECORDS = 50
"""A task type with fewer judged answers shares those of all task types."""
_RIDGE = 1e-2
_STEPS = 50
_LEAST_PER_BIN = 20
_MOST_BINS = 20


@dataclass(frozen=True, slots=True)
class Features:
    """What the log-probabilities of an answer's first tokens look like."""

    mean_logprob: float
    worst_window_logprob: float
    """Mean of the worst four tokens in a row."""
    mean_margin: float
    """Mean distance between the chosen and the best other token."""


@dataclass(frozen=True, slots=True)
class Weights:
    """A logistic model of `Features`."""

    intercept: float
    mean: float = 0.0
    window: float = 0.0
    margin: float = 0.0

    def confidence(self, features: Features) -> float:
        """Returns the probability that an answer is right, 0 to 1."""
        return confidence_of(features, intercept=self.intercept, mean=self.mean, window=self.window, margin=self.margin)


@dataclass(frozen=True, slots=True)
class Band:
    """Confidence below which the strongest tier is asked, and below which the next stronger is."""

    top_below: float
    next_below: float


@dataclass(frozen=True, slots=True)
class Scored:
    """One answer: how sure one was of it, and whether it was right."""

    confidence: float
    right: bool


@dataclass(frozen=True, slots=True)
class Costs:
    """What an answer of each tier costs, in any one unit."""

    small: float = 1.0
    next: float = 10.0
    top: float = 10.0


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a band does to a stream of answers, per answer."""

    top_rate: float
    """Share that goes to the strongest tier."""
    next_rate: float
    """Share that goes to the next stronger tier."""
    cost: float
    quality: float
    """Share that ends up right."""

    @property
    def escalation_rate(self) -> float:
        """Share that is escalated at all."""
        return self.top_rate + self.next_rate


def confidence_of(features: Features, *, intercept: float, mean: float, window: float, margin: float) -> float:
    """Returns the probability that an answer is right, 0 to 1."""
    return logistic(
        intercept
        + mean * features.mean_logprob
        + window * features.worst_window_logprob
        + margin * features.mean_margin
    )


def logistic(odds: float) -> float:
    """Returns the probability of log odds, without overflow."""
    if odds >= 0:
        return 1.0 / (1.0 + math.exp(-odds))
    grown = math.exp(odds)
    return grown / (1.0 + grown)


def fit_weights(answers: Sequence[tuple[Features, bool]]) -> Weights:
    """Fits the logistic model by Newton's method, with a small ridge that keeps separable data finite.

    Args:
        answers: Features and whether the answer was right; at least one of each outcome.

    Raises:
        ValueError: all answers were right, or all were wrong: nothing tells them apart.
    """
    rows = [(1.0, f.mean_logprob, f.worst_window_logprob, f.mean_margin) for f, _ in answers]
    return Weights(*fit_logistic(rows, [float(right) for _, right in answers]))


def fit_logistic(rows: Sequence[Sequence[float]], rights: Sequence[float]) -> list[float]:
    """Returns the weights of a logistic model, by Newton's method with a small ridge on all but the first.

    Args:
        rows: Values of each answer; the first is 1, for the intercept.
        rights: Whether each was right, 0 to 1; at least one of each outcome.

    Raises:
        ValueError: all answers were right, or all were wrong: nothing tells them apart.
    """
    if not 0 < sum(rights) < len(rights):
        raise ValueError("a calibration needs right and wrong answers")
    weights = [0.0] * len(rows[0])
    for _ in range(_STEPS):
        step = _newton_step(rows, rights, weights)
        weights = [weight + change for weight, change in zip(weights, step, strict=True)]
        if max(map(abs, step)) < 1e-9:
            break
    return weights


def fit_band(answers: Iterable[Scored], *, stronger_right: float, gain: float, top_gain: float) -> Band:
    """Returns the band that escalates where a stronger tier is expected to be right clearly more often.

    How often answers of a confidence are right is the isotonic regression of the log: it may only
    grow with confidence.

    Args:
        answers: The log.
        stronger_right: Share of answers that a stronger tier gets right.
        gain: Escalate where a stronger tier is right so much more often, such as 0.1.
        top_gain: Ask the strongest tier where it is right so much more often.
    """
    blocks = _isotonic(sorted(answers, key=lambda one: one.confidence))
    return Band(_threshold(blocks, stronger_right - top_gain), _threshold(blocks, stronger_right - gain))


def outcome(answers: Sequence[Scored], band: Band, *, stronger_right: float, costs: Costs) -> Outcome:
    """Returns what a band does to a stream; escalated answers are right with probability `stronger_right`."""
    count = max(1, len(answers))
    top = sum(one.confidence < band.top_below for one in answers)
    following = sum(band.top_below <= one.confidence < band.next_below for one in answers)
    kept_right = sum(one.right for one in answers if one.confidence >= max(band.top_below, band.next_below))
    return Outcome(
        top_rate=top / count,
        next_rate=following / count,
        cost=costs.small + (top * costs.top + following * costs.next) / count,
        quality=(kept_right + (top + following) * stronger_right) / count,
    )


@dataclass(frozen=True, slots=True)
class _Block:
    low: float
    high: float
    right: float
    count: int


def _isotonic(answers: Sequence[Scored]) -> list[_Block]:
    """Pools sorted answers into blocks whose share of right ones does not fall (pool adjacent violators)."""
    size = max(_LEAST_PER_BIN, math.ceil(len(answers) / _MOST_BINS))
    blocks: list[_Block] = []
    for start in range(0, len(answers), size):
        chunk = answers[start : start + size]
        share = sum(one.right for one in chunk) / len(chunk)
        blocks.append(_Block(chunk[0].confidence, chunk[-1].confidence, share, len(chunk)))
        while len(blocks) > 1 and blocks[-2].right >= blocks[-1].right:
            after, before = blocks.pop(), blocks.pop()
            count = before.count + after.count
            right = (before.right * before.count + after.right * after.count) / count
            blocks.append(_Block(before.low, after.high, right, count))
    return blocks


def _threshold(blocks: Sequence[_Block], enough: float) -> float:
    """Returns the confidence from which answers are right with at least probability `enough`."""
    poor = [block for block in blocks if block.right <= enough]
    if not poor:
        return 0.0
    if len(poor) == len(blocks):
        return 1.0
    return round((poor[-1].high + blocks[len(poor)].low) / 2, 4)


def _newton_step(rows: Sequence[Sequence[float]], rights: Sequence[float], weights: Sequence[float]) -> list[float]:
    size = len(weights)
    gradient = [-_RIDGE * weight if n else 0.0 for n, weight in enumerate(weights)]
    curvature = [[_RIDGE if n == m else 0.0 for m in range(size)] for n in range(size)]
    for row, right in zip(rows, rights, strict=True):
        predicted = logistic(sum(weight * value for weight, value in zip(weights, row, strict=True)))
        spread = predicted * (1.0 - predicted)
        for n in range(size):
            gradient[n] += (right - predicted) * row[n]
            for m in range(size):
                curvature[n][m] += spread * row[n] * row[m]
    return _solve(curvature, gradient)


def _solve(matrix: Sequence[Sequence[float]], values: Sequence[float]) -> list[float]:
    """Solves a small positive definite system by elimination."""
    rows = [[*row, value] for row, value in zip(matrix, values, strict=True)]
    size = len(rows)
    for n in range(size):
        pivot = max(range(n, size), key=lambda m: abs(rows[m][n]))
        rows[n], rows[pivot] = rows[pivot], rows[n]
        for m in range(n + 1, size):
            factor = rows[m][n] / rows[n][n]
            rows[m] = [below - factor * above for below, above in zip(rows[m], rows[n], strict=True)]
    solved = [0.0] * size
    for n in reversed(range(size)):
        known = sum(rows[n][m] * solved[m] for m in range(n + 1, size))
        solved[n] = (rows[n][size] - known) / rows[n][n]
    return solved
