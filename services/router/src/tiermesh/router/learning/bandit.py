"""Where the bandit meets policy: which requests it may decide, and what becomes of their candidates."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

from tiermesh.api.classifier.v1 import classifier_pb2
from tiermesh.api.outcome.v1 import record_pb2
from tiermesh.router.call import Call
from tiermesh.router.policy.candidates import Decision
from tiermesh.router.policy.ranking import TierView
from tiermesh.shared.bandit import BanditChoice, Learnt, Seen, choose, context_of
from tiermesh.shared.bandit.logged import BANDIT, STATIC
from tiermesh.shared.bandit.priors import options_of
from tiermesh.shared.bandit.report import settings_of
from tiermesh.shared.config import TiermeshConfig

EXPLORED = "explored:"
PASSED_OVER = "explored"
"""Verdict of the static policy on its choice where it tries another tier."""


@dataclass(frozen=True, slots=True)
class Advice:
    """What the bandit says of one request."""

    choice: BanditChoice
    tier: str
    """Drawn by its probabilities: asked first where the bandit is live."""
    static: str
    """The static policy's choice."""
    version: str


class Bandit:
    """Holds what has been learnt; whoever learns puts it here."""

    def __init__(self, learnt: Learnt | None = None) -> None:
        self.learnt = learnt or Learnt()


def advise(
    decision: Decision,
    judgement: classifier_pb2.ClassifyResponse | None,
    learnt: Learnt,
    *,
    config: TiermeshConfig,
    views: Mapping[str, TierView],
    unavailable: frozenset[str],
    dice: Callable[[], float],
) -> Advice | None:
    """Returns what the bandit says, or None for a request that is not its to decide.

    That is one that is pinned or refused, has a fixed answer, was moved because tiers are busy or failing, or leaves no
    choice between tiers that are up and have room. Where the static policy tries another tier, its choice is the one that
    it passes over.

    Args:
        decision: The static policy's.
        judgement: What the classifier said.
        learnt: What has been learnt.
        config: Tiers and settings.
        views: How tiers do now.
        unavailable: Tiers that have just failed.
        dice: Returns a number from 0 to 1.
    """
    passed_over = [verdict.tier for verdict in decision.verdicts if verdict.reason == PASSED_OVER]
    if decision.pinned or decision.refusal is not None or judgement is None or (decision.moved and not passed_over):
        return None
    able = [
        tier.name
        for tier in decision.candidates
        if tier.name not in unavailable and not views.get(tier.name, _NOTHING_KNOWN).backlogged
    ]
    first = decision.candidates[0]
    static = next((tier for tier in decision.candidates if tier.name in passed_over), first)
    if static.backend == "rules" or static.name not in able:
        return None
    seen = _seen(decision, judgement)
    options = options_of(config.tiers, able, seen, answer_tokens=decision.answer_tokens)
    if len(options) < 2:
        return None
    choice = choose(options, context_of(seen), learnt.posteriors, static=static.name, settings=settings_of(config))
    return Advice(choice, choice.draw(dice()), static.name, learnt.version)


def obey(decision: Decision, advice: Advice) -> Decision:
    """Returns the decision with the bandit's tier first, and says so."""
    told = f"{EXPLORED}{advice.tier}" if advice.tier != advice.choice.preferred else f"{BANDIT}:{advice.tier}"
    first = next(tier for tier in decision.candidates if tier.name == advice.tier)
    rest = [tier for tier in decision.candidates if tier is not first]
    return replace(
        decision,
        candidates=(first, *rest),
        reasons=(*decision.reasons, told),
        last_resort=decision.last_resort - {advice.tier},
    )


def as_shadow(advice: Advice) -> record_pb2.ShadowDecision:
    """Returns what the bandit would have done, for the log of outcomes."""
    shadow = record_pb2.ShadowDecision(policy=BANDIT, policy_version=advice.version, tier=advice.tier)
    chances = advice.choice.probabilities
    for tier in sorted(chances, key=lambda name: (-chances[name], name)):
        shadow.candidates.add(tier=tier, probability=chances[tier], expected_reward=advice.choice.worth[tier])
    return shadow


def static_shadow(advice: Advice) -> record_pb2.ShadowDecision:
    """Returns what the static policy would have done where the bandit decides."""
    shadow = record_pb2.ShadowDecision(policy=STATIC, tier=advice.static)
    shadow.candidates.add(tier=advice.static, probability=1.0)
    return shadow


def with_bandit(
    call: Call,
    decision: Decision,
    judgement: classifier_pb2.ClassifyResponse | None,
    learnt: Learnt,
    *,
    views: Mapping[str, TierView],
    unavailable: frozenset[str],
    dice: Callable[[], float],
) -> Decision:
    """Returns the decision as the bandit leaves it, and writes on the request's trail and span what it said.

    In shadow it leaves every decision as it is.
    """
    config, trail = call.snapshot.config, call.trail
    live = config.bandit.mode == "live"
    advice = advise(decision, judgement, learnt, config=config, views=views, unavailable=unavailable, dice=dice)
    if advice is None:
        if live and decision.candidates:
            # Only the bandit explores while it is live.
            trail.probabilities = {decision.candidates[0].name: 1.0}
        return decision
    if call.span.is_recording():
        call.span.set_attributes(
            {
                "tiermesh.bandit.mode": config.bandit.mode,
                "tiermesh.bandit.tier": advice.tier,
                "tiermesh.bandit.probability": round(advice.choice.probabilities[advice.tier], 6),
                "tiermesh.bandit.version": advice.version,
            }
        )
    if not live:
        trail.shadows = (as_shadow(advice),)
        return decision
    trail.policy, trail.policy_version, trail.shadows = BANDIT, advice.version, (static_shadow(advice),)
    trail.probabilities, trail.expected = advice.choice.probabilities, advice.choice.worth
    return obey(decision, advice)


def _seen(decision: Decision, judgement: classifier_pb2.ClassifyResponse) -> Seen:
    return Seen(
        task_type=decision.task_type,
        complexity=decision.complexity,
        confidence=decision.confidence or 0.0,
        prompt_tokens=decision.prompt_tokens,
        answer_tokens=judgement.expected_output_token_count,
        small_right=judgement.small_right_probability if judgement.HasField("small_right_probability") else None,
        large_right=judgement.large_right_probability if judgement.HasField("large_right_probability") else None,
        measures=judgement.features,
    )


_NOTHING_KNOWN = TierView()
