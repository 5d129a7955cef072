"""From records of outcomes to the decisions that a replay goes through."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from tiermesh.api.outcome.v1 import record_pb2
from tiermesh.shared.bandit.context import context_of
from tiermesh.shared.bandit.learning import seen_of
from tiermesh.shared.bandit.priors import options_of, simulated_tiers
from tiermesh.shared.bandit.replay import Logged
from tiermesh.shared.config import TiermeshConfig
from tiermesh.shared.outcomes import verdict

STATIC, BANDIT = "static", "bandit"
"""Names of the two policies in the log."""


def logged_decisions(
    outcomes: Iterable[record_pb2.Outcome], config: TiermeshConfig
) -> tuple[list[Logged], dict[str, int]]:
    """Returns the usable decisions in the order of time, and how many were left out, by the reason why."""
    found: list[tuple[int, Logged]] = []
    left_out: Counter[str] = Counter()
    for outcome in outcomes:
        logged = _logged(outcome, config)
        if isinstance(logged, str):
            left_out[logged] += 1
        else:
            found.append((outcome.arrived.ToNanoseconds(), logged))
    found.sort(key=lambda pair: pair[0])
    return [logged for _, logged in found], dict(left_out)


def _logged(outcome: record_pb2.Outcome, config: TiermeshConfig) -> Logged | str:
    """Returns the decision, or why it is of no use."""
    right, decision = verdict(outcome), outcome.decision
    if right is None:
        return "no_feedback"
    if outcome.result.cache == "hit" or not decision.candidates:
        return "no_tier_asked"
    if decision.pinned:
        return "pinned"
    if outcome.result.simulated != (outcome.result.tier in simulated_tiers(config.tiers)):
        return "simulated" if outcome.result.simulated else "not_simulated"
    asked = decision.candidates[0].tier
    if outcome.result.tier != asked or outcome.result.escalated or outcome.result.revised:
        # The opinion is about another tier's answer than the one that was chosen.
        return "answered_by_another_tier"
    seen = seen_of(outcome.features)
    able = [candidate.tier for candidate in decision.candidates]
    options = options_of(config.tiers, able, seen, answer_tokens=config.router.default_answer_tokens)
    names = {option.tier for option in options}
    if asked not in names:
        return "fixed_answer"
    if len(options) < 2:
        return "no_choice"
    probabilities = {candidate.tier: candidate.probability for candidate in decision.candidates}
    static = _static(decision)
    if static not in names or not 0 < probabilities[asked] <= 1:
        return "unknown_propensity"
    return Logged(context_of(seen), options, static, asked, probabilities, right)


def _static(decision: record_pb2.Decision) -> str:
    """Returns what the static policy chose, or would have chosen, when the decision was made."""
    if decision.policy == STATIC:
        others = decision.candidates[1:] if decision.explored else decision.candidates[:1]
        return max(others, key=lambda candidate: candidate.probability).tier
    return next((shadow.tier for shadow in decision.shadows if shadow.policy == STATIC), "")
