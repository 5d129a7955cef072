"""Which tier the bandit would ask first, and with which probability: a pure function of values.

The tier believed to be worth most is asked, but for a small share of requests, at most `exploration`, on which another one
is tried. Which one, and how often, follows Thompson sampling's probability matching: a tier is tried as often as it may
turn out to be the best, P(its worth exceeds the best one's) under the beliefs, scaled down so that all tries together stay
within the cap. These probabilities have a closed form, so every decision's propensity is known exactly, which drawing
samples would not give; and there is no exploring where nothing is left to learn.

Guard rails:

1. Only tiers that policy has found able and up are options, and pinned requests never get here.
2. A tier weaker than the static policy's choice is *preferred* only if it is surely good enough: the probability that its
   answer is right, less one standard deviation, must reach the floor. It is *tried*, within the cap, only while it is not
   known to be below: the probability and one standard deviation must reach it.
3. Where nothing has been learnt of any option, the static choice stands, and only the cap's share explores.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from tiermesh.shared.bandit.context import UNKNOWN_RIGHT, Vector
from tiermesh.shared.bandit.posterior import Belief, Posterior

_LEAST_CHANCE = 1e-3
"""Tiers less likely than this to be the best are not tried at all."""


@dataclass(frozen=True, slots=True)
class Option:
    """A tier that may be asked first, in the order of strength."""

    tier: str
    cost_share: float
    """Its expected cost as a share of the dearest option's."""
    prior: float = UNKNOWN_RIGHT
    """Probability of a right answer that the classifier says."""


@dataclass(frozen=True, slots=True)
class Settings:
    """How much is risked, and what counts."""

    exploration: float
    floor: float
    right_weight: float
    cost_weight: float
    prior_strength: float


@dataclass(frozen=True, slots=True)
class BanditChoice:
    """What the bandit would do with one request."""

    preferred: str
    """Tier believed to be worth most."""
    probabilities: Mapping[str, float]
    """With which each option is asked first; they add up to 1."""
    worth: Mapping[str, float]
    """What is expected of each option, in the balance's currency."""
    beliefs: Mapping[str, Belief]

    def draw(self, dice: float) -> str:
        """Returns the tier to ask first, for a number from 0 to 1."""
        passed = 0.0
        for tier, probability in self.probabilities.items():
            passed += probability
            if dice < passed:
                return tier
        return self.preferred


def choose(
    options: Sequence[Option], context: Vector, learnt: Mapping[str, Posterior], *, static: str, settings: Settings
) -> BanditChoice:
    """Returns what the bandit would do.

    Args:
        options: Tiers that may be asked, from the weakest to the strongest; at least one.
        context: As of `context_of`.
        learnt: What is believed of tiers, by name; of others, nothing is.
        static: The static policy's choice, one of the options.
        settings: Weights and guard rails.
    """
    fresh = None
    beliefs: dict[str, Belief] = {}
    for option in options:
        posterior = learnt.get(option.tier)
        if posterior is None:
            posterior = fresh = fresh or Posterior.fresh(settings.prior_strength)
        beliefs[option.tier] = posterior.belief(context, option.prior)
    worth = {
        option.tier: settings.right_weight * beliefs[option.tier].right - settings.cost_weight * option.cost_share
        for option in options
    }
    names = [option.tier for option in options]
    weaker = set(names[: names.index(static)])
    known = any(tier in learnt and learnt[tier].count for tier in names)
    safe = [
        tier
        for tier in names
        if tier not in weaker or (beliefs[tier].right - beliefs[tier].doubt >= settings.floor and known)
    ]
    preferred = max(safe, key=lambda tier: (worth[tier], tier == static)) if known else static
    chances = {
        tier: chance
        for tier in names
        if tier != preferred
        and (tier not in weaker or beliefs[tier].right + beliefs[tier].doubt >= settings.floor)
        and (chance := _chance(tier, preferred, worth, beliefs, settings)) >= _LEAST_CHANCE
    }
    share = min(settings.exploration, sum(chances.values()))
    total = sum(chances.values())
    probabilities = {tier: share * chances.get(tier, 0.0) / total if total else 0.0 for tier in names}
    probabilities[preferred] = 1.0 - sum(
        probability for tier, probability in probabilities.items() if tier != preferred
    )
    return BanditChoice(preferred, probabilities, worth, beliefs)


def _chance(
    tier: str, preferred: str, worth: Mapping[str, float], beliefs: Mapping[str, Belief], settings: Settings
) -> float:
    """Returns the probability that a tier is worth more than the preferred one, taking beliefs as independent."""
    spread = settings.right_weight * math.hypot(beliefs[tier].doubt, beliefs[preferred].doubt)
    lead = worth[tier] - worth[preferred]
    if spread <= 0:
        return 0.0 if lead <= 0 else 1.0
    return 0.5 * math.erfc(-lead / (spread * math.sqrt(2)))
