"""What the classifier's two probabilities and the prices say of each tier of a configuration."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from tiermesh.shared.bandit.choice import Option
from tiermesh.shared.bandit.context import UNKNOWN_RIGHT, Seen
from tiermesh.shared.config import TierConfig


def strengths(tiers: Sequence[TierConfig]) -> Mapping[str, float]:
    """Returns how far each tier with a language model is between a small (0) and a large one (1).

    Without a setting of its own, by its place among them.
    """
    models = [tier for tier in tiers if tier.backend != "rules"]
    last = max(1, len(models) - 1)
    even = {tier.name: at / last if len(models) > 1 else 1.0 for at, tier in enumerate(models)}
    return {tier.name: even[tier.name] if tier.strength is None else tier.strength for tier in models}


def simulated_tiers(tiers: Sequence[TierConfig]) -> frozenset[str]:
    """Returns the tiers whose answers are made up."""
    return frozenset(tier.name for tier in tiers if tier.backend == "simulated")


def prior_right(seen: Seen, strength: float) -> float:
    """Returns the probability that the classifier gives a tier's answer of being right."""
    if seen.small_right is None or seen.large_right is None:
        return UNKNOWN_RIGHT
    return seen.small_right + strength * (seen.large_right - seen.small_right)


def options_of(
    tiers: Sequence[TierConfig], able: Sequence[str], seen: Seen, *, answer_tokens: int
) -> tuple[Option, ...]:
    """Returns the options among a configuration's tiers, from the weakest to the strongest.

    Args:
        tiers: All of them.
        able: Names of those that may be asked.
        seen: What is known of the request.
        answer_tokens: Most tokens of the answer, where no length is expected.
    """
    strength = strengths(tiers)
    length = seen.answer_tokens or answer_tokens
    costs = {
        tier.name: (seen.prompt_tokens * tier.price_in + min(length, tier.answer_tokens) * tier.price_out) / 1e6
        for tier in tiers
        if tier.name in strength
    }
    dearest = max(costs.values(), default=0.0)
    return tuple(
        Option(name, costs[name] / dearest if dearest > 0 else 0.0, prior_right(seen, strength[name]))
        for name in costs
        if name in able
    )
