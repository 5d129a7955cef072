"""What the bandit would have been worth on logged requests, before it decides any.

The log is gone through in the order of time, in blocks. Each block is decided by a bandit that has learnt from the earlier
blocks alone, just as it would live, and judged by the doubly robust estimator (Dudik, Langford and Li, "Doubly Robust Policy
Evaluation and Learning", ICML 2011): what the earlier blocks make one expect of each tier, corrected by what the tier that
was really asked did, weighted by how much likelier the bandit asks it than the log did. It is right on average if *either*
the expectations or the logged probabilities are. The static policy is judged by the same formula on the same requests, so
that luck in them cancels out; intervals are bootstrapped over requests.

A log in which every request always went to the same tier says nothing of the others: `support` is the share of the bandit's
decisions that the log could have made too, and a replay with little of it does not pass, whatever the estimate.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray
from tiermesh.shared.bandit.choice import Option, Settings, choose
from tiermesh.shared.bandit.context import Vector
from tiermesh.shared.bandit.learning import Lesson, learn
from tiermesh.shared.bandit.posterior import Posterior

BLOCKS = 20
"""Steps in which the bandit learns during a replay; the first one is only learnt from."""
BOOTSTRAPS = 1000
MAX_WEIGHT = 100.0
"""Longest that one request's weight may get: cut, it errs towards what was expected."""


@dataclass(frozen=True, slots=True)
class Logged:
    """One decision of the log, and how it came out."""

    context: Vector
    options: tuple[Option, ...]
    """From the weakest to the strongest tier."""
    static: str
    """What the static policy chooses."""
    asked: str
    """Tier that was asked first, and answered."""
    probabilities: Mapping[str, float]
    """With which the log's own policy asked each option."""
    right: float
    """How good the answer was, 0 to 1."""

    def option(self, tier: str) -> Option:
        """Returns the option of that tier."""
        return next(option for option in self.options if option.tier == tier)


@dataclass(frozen=True, slots=True)
class Interval:
    """A mean and the middle 95% of its bootstrap."""

    mean: float
    low: float
    high: float


@dataclass(frozen=True, slots=True)
class Replayed:
    """What a replay found."""

    requests: int
    """Judged, the first block left out."""
    worth_static: Interval
    worth_bandit: Interval
    worth_difference: Interval
    """Of the bandit over the static policy, in the balance's currency."""
    right_static: Interval
    right_bandit: Interval
    right_difference: Interval
    """The same without costs: share of right answers."""
    support: float
    """Share of the bandit's decisions that the log could have made."""
    effective: float
    """Number of requests that the weighted ones are worth (Kish)."""
    exploring: float
    """Share of requests on which the bandit would try another tier than it prefers."""
    moved: float
    """Share of requests that it would send elsewhere than the static policy."""


def replay(log: Sequence[Logged], *, settings: Settings, blocks: int = BLOCKS, seed: int = 0) -> Replayed:
    """Judges the bandit on a log.

    Args:
        log: In the order of time.
        settings: Of the bandit.
        blocks: Number of steps in which it learns.
        seed: Of the bootstrap.

    Raises:
        ValueError: there are fewer requests than blocks.
    """
    if len(log) < blocks:
        raise ValueError(f"{len(log)} usable requests; at least {blocks} are needed")
    edges = np.linspace(0, len(log), blocks + 1).astype(int)
    rows: list[tuple[float, ...]] = []
    for start, end in pairwise(edges[1:]):
        learnt = learn((_lesson(one) for one in log[:start]), strength=settings.prior_strength)
        rows += [_judge(one, learnt, settings) for one in log[start:end]]
    found = np.array(rows)
    worth_static, worth_bandit, right_static, right_bandit, supported, weight, exploring, moved = found.T
    rng = np.random.default_rng(seed)
    draws = rng.integers(0, len(found), (BOOTSTRAPS, len(found)))

    def interval(values: NDArray[np.float64]) -> Interval:
        low, high = np.quantile(values[draws].mean(axis=1), [0.025, 0.975])
        return Interval(float(values.mean()), float(low), float(high))

    return Replayed(
        requests=len(found),
        worth_static=interval(worth_static),
        worth_bandit=interval(worth_bandit),
        worth_difference=interval(worth_bandit - worth_static),
        right_static=interval(right_static),
        right_bandit=interval(right_bandit),
        right_difference=interval(right_bandit - right_static),
        support=float(supported.mean()),
        effective=float(weight.sum() ** 2 / max(1e-12, (weight**2).sum())),
        exploring=float(exploring.mean()),
        moved=float(moved.mean()),
    )


def _lesson(one: Logged) -> Lesson:
    return Lesson(one.asked, one.context, one.right, one.option(one.asked).prior)


def _judge(one: Logged, learnt: Mapping[str, Posterior], settings: Settings) -> tuple[float, ...]:
    choice = choose(one.options, one.context, learnt, static=one.static, settings=settings)
    expected = {tier: belief.right for tier, belief in choice.beliefs.items()}
    surprise = one.right - expected[one.asked]
    logged = max(one.probabilities.get(one.asked, 0.0), 1.0 / MAX_WEIGHT)
    weights = {
        "static": float(one.asked == one.static) / logged,
        "bandit": min(MAX_WEIGHT, choice.probabilities[one.asked] / logged),
    }
    right_static = expected[one.static] + weights["static"] * surprise
    right_bandit = sum(p * expected[tier] for tier, p in choice.probabilities.items()) + weights["bandit"] * surprise
    cost_bandit = sum(p * one.option(tier).cost_share for tier, p in choice.probabilities.items())
    return (
        settings.right_weight * right_static - settings.cost_weight * one.option(one.static).cost_share,
        settings.right_weight * right_bandit - settings.cost_weight * cost_bandit,
        right_static,
        right_bandit,
        sum(p for tier, p in choice.probabilities.items() if one.probabilities.get(tier, 0.0) > 0),
        weights["bandit"],
        1.0 - choice.probabilities[choice.preferred],
        float(choice.preferred != one.static),
    )
