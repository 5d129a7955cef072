"""What asking each tier is worth for one request: a pure function of values.

    worth = right_weight * P(its answer is right) - cost_weight * its cost / the dearest tier's cost

The classifier says how likely a small and a large model are to be right *about this request*; a tier is as far between
the two as its `strength` says. So a dearer tier is chosen where it makes a right answer likelier by enough to be worth
what it costs, whether the prompt is long or short. Two tiers are compared by their difference in worth, which is the
expected gain of the dearer one less the weighted extra cost; the first choice is the tier of the highest worth.

Where the probabilities are not known, or are only the judgement of the people who wrote the training prompts and the
configuration wants measured ones, there is no worth, and complexity decides (`tiermesh.router.policy.candidates`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from tiermesh.shared.bandit.priors import strengths
from tiermesh.shared.config import BalanceConfig, TierConfig

MEASURED = "outcomes"
"""Basis of probabilities that were fitted to outcomes of a fleet."""


@dataclass(frozen=True, slots=True)
class RightProbabilities:
    """What the classifier says of one request."""

    small: float
    """That a small model's answer is right."""
    large: float
    """That a large model's answer is right."""
    basis: str = ""
    """What they rest on: `outcomes` of a fleet, or the `judgement` of the training prompts' authors."""


@dataclass(frozen=True, slots=True)
class Gain:
    """What asking one tier is worth."""

    right: float
    """Probability that its answer is right."""
    cost: float
    """Expected cost in the currency of the prices."""
    worth: float
    """Weighted sum of both."""


def usable(said: RightProbabilities | None, balance: BalanceConfig) -> bool:
    """Whether probabilities may decide."""
    if said is None or balance.right_probabilities == "never":
        return False
    return balance.right_probabilities == "always" or said.basis == MEASURED


def expected_cost(tier: TierConfig, *, prompt_tokens: int, answer_tokens: int) -> float:
    """Returns what a request is expected to cost on a tier."""
    return (prompt_tokens * tier.price_in + min(answer_tokens, tier.answer_tokens) * tier.price_out) / 1e6


def tier_gains(
    tiers: Sequence[TierConfig],
    said: RightProbabilities,
    *,
    balance: BalanceConfig,
    prompt_tokens: int,
    answer_tokens: int,
) -> Mapping[str, Gain]:
    """Returns what each tier with a language model is worth, by name.

    Args:
        tiers: All tiers of the configuration, from the cheapest to the strongest.
        said: What the classifier says.
        balance: Weights.
        prompt_tokens: Length of the prompt.
        answer_tokens: Expected length of the answer.
    """
    models = [tier for tier in tiers if tier.backend != "rules"]
    costs = {
        tier.name: expected_cost(tier, prompt_tokens=prompt_tokens, answer_tokens=answer_tokens) for tier in models
    }
    dearest, strength = max(costs.values(), default=0.0), strengths(tiers)
    found = {}
    for tier in models:
        right = said.small + strength[tier.name] * (said.large - said.small)
        share = costs[tier.name] / dearest if dearest > 0 else 0.0
        worth = balance.right_weight * right - balance.cost_weight * share
        found[tier.name] = Gain(right, costs[tier.name], worth)
    return found


def best_by_gain(able: Sequence[TierConfig], gains: Mapping[str, Gain], *, least_right: float) -> int:
    """Returns the place of the tier that is worth most; of equal ones, of the cheapest.

    Tiers less likely to be right than `least_right` are passed over, unless all are: then the likeliest is chosen.

    Args:
        able: Tiers that can take the request, from the cheapest to the strongest; each has a gain.
        gains: As of `tier_gains`.
        least_right: Floor of the probability.
    """
    places = range(len(able))
    good = [at for at in places if gains[able[at].name].right >= least_right]
    if not good:
        return max(places, key=lambda at: (gains[able[at].name].right, -at))
    return max(good, key=lambda at: (gains[able[at].name].worth, -at))
