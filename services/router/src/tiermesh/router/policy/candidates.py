"""Which tiers may answer a request, and in which order they are tried: a pure function of values.

The first choice is the cheapest tier that serves this kind of work and language, is meant for
this complexity, and holds prompt and answer. Where it is known how likely a small and a large model
are to answer this request rightly, the first choice is instead the tier whose expected gain is worth
its cost (`tiermesh.router.policy.gain`); tiers with fixed answers are still chosen by complexity. After it come the stronger tiers that could serve it
too, the next stronger first. Last come the weaker ones, which the complexity had ruled out, the
strongest first: a weaker answer is better than none. How tiers do now may put another one first
(`tiermesh.router.policy.ranking`). Tiers that have just failed are moved behind all others. A request pinned to a tier or model has that one candidate and no other.

Token counts here are estimates. They order tiers, but a prompt that fits none by estimate is only
refused if it is far too long (`SURELY_TOO_LONG`); else the tier with the longest context is asked,
whose own count decides.

Without a classification the kind of work is unknown: tiers that serve only some kinds are left
out, and the complexity is assumed from the length alone (`UNCLASSIFIED_COMPLEXITY`,
`UNCLASSIFIED_LONG_COMPLEXITY`), which leads to the middle of the tiers rather than to an end.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from tiermesh.api.common.v1 import chat_pb2
from tiermesh.router.classification import Classification
from tiermesh.router.facts import RequestFacts
from tiermesh.router.policy.gain import Gain, best_by_gain, tier_gains, usable
from tiermesh.router.policy.lanes import SIMPLE, lane_of
from tiermesh.router.policy.models import pinned_tiers
from tiermesh.router.policy.ranking import DEGRADED, SHED_RETRY_S, Ranking, TierView, rank
from tiermesh.router.policy.task_types import UNSPECIFIED
from tiermesh.router.policy.verdicts import CAPABILITY, UNCERTAIN, Verdict, reasons_of, verdict_on
from tiermesh.shared.config import TierConfig, TiermeshConfig
from tiermesh.shared.errors import ContextTooLong, NoEligibleTier, NotApplicable, QueueFull, TiermeshError

UNCLASSIFIED_COMPLEXITY = 0.5
UNCLASSIFIED_LONG_COMPLEXITY = 0.75
UNCLASSIFIED_LONG_TOKENS = 1000
"""Prompts of at least so many tokens count as long where nothing else is known of them."""

SURELY_TOO_LONG = 0.4
"""Share of the estimate that must still exceed the context for a refusal. Estimates are fitted to one
tokenizer; for Chinese with a vocabulary made for it they come out two and a half times too high."""


@dataclass(frozen=True, slots=True)
class Decision:
    """Where a request may be answered."""

    candidates: tuple[TierConfig, ...]
    """Tiers to try, in order; no tier twice."""
    verdicts: tuple[Verdict, ...]
    """One per tier, in the order of the configuration."""
    reasons: tuple[str, ...]
    """Short machine-readable reasons, strongest first."""
    pinned: bool
    task_type: str
    complexity: float
    source: str
    """What judged the request; `unavailable` where nothing did."""
    rules: tuple[str, ...] = ()
    last_resort: frozenset[str] = frozenset()
    """Candidates weaker than the request needs."""
    degraded: bool = False
    """Whether the first candidate is weaker than the request needs only because stronger tiers are busy."""
    lane: str = SIMPLE
    """Whose table of caps and reserves counts."""
    confidence: float | None = None
    """How sure the classifier is; None where nothing judged the request."""
    safety_flags: tuple[str, ...] = ()
    """What the classifier found in the prompt that asks for care."""
    prompt_tokens: int = 0
    answer_tokens: int = 0
    """Most tokens of one choice."""
    gains: Mapping[str, Gain] = field(default_factory=dict)
    """What each tier with a language model is worth, by name; empty where complexity decided."""
    moved: bool = False
    """Whether another tier is first than by policy alone, because of how tiers do now, or to learn how one does."""
    refusal: TiermeshError | None = field(default=None, compare=False)
    """Why there is no candidate."""


def decide(
    facts: RequestFacts,
    *,
    model: str,
    classification: Classification | None,
    config: TiermeshConfig,
    unavailable: frozenset[str] = frozenset(),
    views: Mapping[str, TierView] | None = None,
    left_s: float = math.inf,
    explore: bool = False,
) -> Decision:
    """Returns where a request may be answered.

    Args:
        facts: What the router knows of the request.
        model: Model name of the request.
        classification: The classifier's judgement, or None where it did not answer.
        config: Tiers and limits.
        unavailable: Tiers that have just failed.
        views: How tiers do now.
        left_s: Seconds left for an engine.
        explore: Whether the best tier is to be passed over once.

    Raises:
        UnknownModel: `model` names nothing that exists.
    """
    pins = {tier.name for tier in pinned_tiers(model, config.tiers)}
    judged = classification or _by_length(facts)
    tokens = judged.prompt_tokens or facts.prompt_tokens
    answer = facts.max_tokens or config.router.default_answer_tokens
    unfit: dict[str, Verdict] = {}
    for tier in config.tiers:
        if pins and tier.name not in pins:
            unfit[tier.name] = Verdict(tier.name, False, "not_pinned", f"the request is pinned to {model}")
            continue
        found = (None if pins else _not_meant_for(tier, judged)) or _incapable(tier, facts, tokens, answer)
        if found is not None:
            unfit[tier.name] = Verdict(tier.name, False, *found)
    able = [tier for tier in config.tiers if tier.name not in unfit]
    if not able:
        able = _perhaps_able(config.tiers, unfit, tokens, answer)
    gains: Mapping[str, Gain] = {}
    if pins:
        # Several tiers may serve a pinned model; the cheapest that can take the request is the one.
        ordered, weaker, ranking = able[:1], frozenset[str](), Ranking(tuple(able[:1]))
    else:
        gains = _gains(judged, config, tokens, answer)
        ordered, weaker = _order(able, judged.complexity, gains, config.balance.least_right)
        batch = facts.priority == chat_pb2.PRIORITY_BATCH
        ranking = rank(
            ordered,
            weaker,
            views or {},
            balance=config.balance,
            left_s=left_s,
            batch=batch,
            explore=explore,
            rights={name: gain.right for name, gain in gains.items()},
        )
        ordered = sorted(ranking.ordered, key=lambda tier: tier.name in unavailable)
    verdicts = tuple(
        unfit.get(tier.name)
        or verdict_on(tier, ordered, weaker, unavailable, judged, ranking, gains, pinned=bool(pins))
        for tier in config.tiers
    )
    refusal: TiermeshError | None = None
    if ranking.shed:
        refusal = QueueFull("every tier is backlogged; batch work has to wait", retry_after=SHED_RETRY_S)
    elif not ordered:
        refusal = _refusal(model, bool(pins), verdicts, config, tokens, answer)
    return Decision(
        candidates=tuple(ordered),
        verdicts=verdicts,
        reasons=reasons_of(classification, verdicts, ordered, weaker, ranking, gains, pinned=bool(pins)),
        degraded=DEGRADED in ranking.reasons and not ranking.shed,
        pinned=bool(pins),
        task_type=judged.task_type,
        complexity=judged.complexity,
        source=judged.source,
        rules=judged.rules,
        last_resort=weaker,
        lane=lane_of(facts.priority, judged.complexity, config.lanes),
        confidence=judged.confidence,
        safety_flags=judged.safety_flags,
        prompt_tokens=tokens,
        answer_tokens=answer,
        gains=gains,
        moved=bool(ranking.reasons),
        refusal=refusal,
    )


def _by_length(facts: RequestFacts) -> Classification:
    long = facts.prompt_tokens >= UNCLASSIFIED_LONG_TOKENS
    complexity = UNCLASSIFIED_LONG_COMPLEXITY if long else UNCLASSIFIED_COMPLEXITY
    return Classification(UNSPECIFIED, complexity, "unavailable")


def _not_meant_for(tier: TierConfig, judged: Classification) -> tuple[str, str] | None:
    kind = judged.task_type
    if tier.task_types and kind not in tier.task_types:
        if kind == UNSPECIFIED:
            return "task_type_unknown", f"serves only {', '.join(tier.task_types)}"
        return "task_type_not_served", f"serves {', '.join(tier.task_types)}, not {kind}"
    if kind in tier.excluded_task_types:
        return "task_type_excluded", f"is not used for {kind}"
    if tier.languages:
        foreign = [code for code in judged.languages if code not in tier.languages]
        if foreign:
            return "language_not_served", f"serves {', '.join(tier.languages)}, not {', '.join(foreign)}"
    return None


def _incapable(tier: TierConfig, facts: RequestFacts, tokens: int, answer: int) -> tuple[str, str] | None:
    answer = min(answer, tier.answer_tokens)
    if tokens + answer > tier.context_tokens:
        return (
            "context_too_long",
            f"about {tokens} prompt tokens and {answer} answer tokens exceed its context of {tier.context_tokens}",
        )
    if tier.backend == "rules":
        if facts.wants_logprobs:
            return "no_logprobs", "answers from rules, which have no log-probabilities"
        if facts.has_tool_history:
            return "no_tool_history", "answers from rules, which know no tool calls"
    return None


def _perhaps_able(tiers: Sequence[TierConfig], unfit: dict[str, Verdict], tokens: int, answer: int) -> list[TierConfig]:
    """Takes back the verdict on the tier with the longest context, unless that too is surely exceeded."""
    too_long = [tier for tier in tiers if unfit[tier.name].reason == "context_too_long"]
    if not too_long:
        return []
    longest = max(too_long, key=lambda tier: tier.context_tokens)
    if tokens * SURELY_TOO_LONG + min(answer, longest.answer_tokens) > longest.context_tokens:
        return []
    detail = f"{unfit.pop(longest.name).detail} by estimate; its own count decides"
    unfit[longest.name] = Verdict(longest.name, True, UNCERTAIN, detail)
    return [longest]


def _gains(judged: Classification, config: TiermeshConfig, tokens: int, answer: int) -> Mapping[str, Gain]:
    """Returns what tiers are worth; empty where that is not known, so that complexity decides."""
    if judged.right is None or not usable(judged.right, config.balance):
        return {}
    expected = min(answer, judged.answer_tokens or answer)
    return tier_gains(config.tiers, judged.right, balance=config.balance, prompt_tokens=tokens, answer_tokens=expected)


def _order(
    able: Sequence[TierConfig], complexity: float, gains: Mapping[str, Gain], least_right: float
) -> tuple[list[TierConfig], frozenset[str]]:
    """Orders tiers for an unpinned request and names those that are weaker than it needs."""
    first = next((n for n, tier in enumerate(able) if complexity <= tier.max_complexity), max(0, len(able) - 1))
    if gains and able and able[first].backend != "rules":
        models = [tier for tier in able if tier.backend != "rules"]
        first = able.index(models[best_by_gain(models, gains, least_right=least_right)])
    weaker = able[:first]
    return [*able[first:], *reversed(weaker)], frozenset(tier.name for tier in weaker)


def _refusal(
    model: str, pinned: bool, verdicts: Sequence[Verdict], config: TiermeshConfig, tokens: int, answer: int
) -> TiermeshError:
    by_reason = {verdict.reason: verdict for verdict in verdicts}
    too_long = [config.tier(verdict.tier) for verdict in verdicts if verdict.reason == "context_too_long"]
    if too_long:
        held = ", ".join(f"{tier.name} {tier.context_tokens}" for tier in too_long)
        asked = min(answer, max(tier.answer_tokens for tier in too_long))
        where = model if pinned else "every tier allowed"
        return ContextTooLong(
            f"messages: about {tokens} prompt tokens and {asked} answer tokens exceed the context of {where}"
            f" (tokens: {held}); shorten the messages or lower max_tokens",
            field="messages",
        )
    if pinned:
        verdict = next(v for reason, v in by_reason.items() if reason in CAPABILITY)
        return NotApplicable(f"tier {verdict.tier} {verdict.detail}; pin another tier or use model auto")
    seen = "; ".join(f"{verdict.tier}: {verdict.detail or verdict.reason}" for verdict in verdicts)
    return NoEligibleTier(f"no tier takes this request: {seen}")
