"""Which tiers may answer a request, and in which order they are tried: a pure function of values.

The first choice is the cheapest tier that serves this kind of work and language, is meant for
this complexity, and holds prompt and answer. After it come the stronger tiers that could serve it
too, the next stronger first. Last come the weaker ones, which the complexity had ruled out, the
strongest first: a weaker answer is better than none. How tiers do now may put another one first
(`tiermesh.router.ranking`). Tiers that have just failed are moved behind all others. A request pinned to a tier or model has that one candidate and no other.

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
from tiermesh.router.facts import RequestFacts
from tiermesh.router.lanes import SIMPLE, lane_of
from tiermesh.router.models import pinned_tiers
from tiermesh.router.ranking import DEGRADED, SHED_RETRY_S, Ranking, TierView, rank
from tiermesh.router.task_types import UNSPECIFIED
from tiermesh.shared.config import TierConfig, TiermeshConfig
from tiermesh.shared.errors import ContextTooLong, NoEligibleTier, NotApplicable, QueueFull, TiermeshError

UNCLASSIFIED_COMPLEXITY = 0.5
UNCLASSIFIED_LONG_COMPLEXITY = 0.75
UNCLASSIFIED_LONG_TOKENS = 1000
"""Prompts of at least so many tokens count as long where nothing else is known of them."""

SURELY_TOO_LONG = 0.4
"""Share of the estimate that must still exceed the context for a refusal. Estimates are fitted to one
tokenizer; for Chinese with a vocabulary made for it they come out two and a half times too high."""

LAST_RESORT = "last_resort"
"""Reason of an answer from a tier weaker than the request needs."""

_CAPABILITY = {"context_too_long", "no_logprobs", "no_tool_history"}
"""Verdicts that say what a tier can hold or do, as opposed to what it is meant for."""
_TOLD = _CAPABILITY | {"language_not_served", "recently_unavailable"}
_UNCERTAIN = "context_uncertain"
"""Verdicts on cheaper tiers that explain a choice where the matched rules do not."""


@dataclass(frozen=True, slots=True)
class Classification:
    """The classifier's judgement, as far as policy uses it."""

    task_type: str
    complexity: float
    source: str
    rules: tuple[str, ...] = ()
    languages: tuple[str, ...] = ()
    prompt_tokens: int = 0
    """0 where the classifier did not estimate it."""
    confidence: float | None = None
    """How sure the classifier is of the kind of work; None where it did not answer."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """Whether one tier could take the request, and why."""

    tier: str
    eligible: bool
    reason: str
    detail: str = ""


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
    prompt_tokens: int = 0
    answer_tokens: int = 0
    """Most tokens of one choice."""
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
    if pins:
        # Several tiers may serve a pinned model; the cheapest that can take the request is the one.
        ordered, weaker, ranking = able[:1], frozenset[str](), Ranking(tuple(able[:1]))
    else:
        ordered, weaker = _order(able, judged.complexity)
        batch = facts.priority == chat_pb2.PRIORITY_BATCH
        ranking = rank(
            ordered, weaker, views or {}, balance=config.balance, left_s=left_s, batch=batch, explore=explore
        )
        ordered = sorted(ranking.ordered, key=lambda tier: tier.name in unavailable)
    verdicts = tuple(
        unfit.get(tier.name) or _verdict(tier, ordered, weaker, unavailable, judged, ranking, pinned=bool(pins))
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
        reasons=_reasons(classification, verdicts, ordered, weaker, ranking, pinned=bool(pins)),
        degraded=DEGRADED in ranking.reasons and not ranking.shed,
        pinned=bool(pins),
        task_type=judged.task_type,
        complexity=judged.complexity,
        source=judged.source,
        rules=judged.rules,
        last_resort=weaker,
        lane=lane_of(facts.priority, judged.complexity, config.lanes),
        confidence=judged.confidence,
        prompt_tokens=tokens,
        answer_tokens=answer,
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
    unfit[longest.name] = Verdict(longest.name, True, _UNCERTAIN, detail)
    return [longest]


def _order(able: Sequence[TierConfig], complexity: float) -> tuple[list[TierConfig], frozenset[str]]:
    """Orders tiers for an unpinned request and names those that are weaker than it needs."""
    first = next((n for n, tier in enumerate(able) if complexity <= tier.max_complexity), max(0, len(able) - 1))
    weaker = able[:first]
    return [*able[first:], *reversed(weaker)], frozenset(tier.name for tier in weaker)


def _verdict(
    tier: TierConfig,
    ordered: Sequence[TierConfig],
    weaker: frozenset[str],
    unavailable: frozenset[str],
    judged: Classification,
    ranking: Ranking,
    *,
    pinned: bool,
) -> Verdict:
    first = tier is ordered[0]
    if pinned:
        if first:
            return Verdict(tier.name, True, "pinned")
        return Verdict(tier.name, False, "not_pinned", f"{ordered[0].name} serves the same model and comes first")
    if tier.name in ranking.passed_over and not first:
        return Verdict(tier.name, True, *ranking.passed_over[tier.name])
    if tier.name in unavailable and not first:
        return Verdict(tier.name, True, "recently_unavailable", "has just failed; tried after all others")
    if tier.name in weaker:
        detail = f"complexity {judged.complexity:.2f} is above its max_complexity {tier.max_complexity:.2f}"
        return Verdict(tier.name, True, "below_complexity", f"{detail}; used only if no stronger tier answers")
    if first:
        return Verdict(tier.name, True, "chosen")
    return Verdict(tier.name, True, "stronger", "could take it, but a cheaper tier is good enough")


def _reasons(
    classification: Classification | None,
    verdicts: Sequence[Verdict],
    ordered: Sequence[TierConfig],
    weaker: frozenset[str],
    ranking: Ranking,
    *,
    pinned: bool,
) -> tuple[str, ...]:
    if pinned:
        return ("pinned", *(f"{_UNCERTAIN}:{v.tier}" for v in verdicts if v.reason == _UNCERTAIN))
    found: list[str] = []
    if classification is None:
        found.append("classifier:unavailable")
    elif classification.rules:
        found.extend(f"rule:{rule}" for rule in classification.rules)
    else:
        found.append(f"classifier:{classification.source}")
    chosen = ordered[0].name if ordered else ""
    for verdict in verdicts:
        if verdict.reason == _UNCERTAIN:
            found.append(f"{verdict.reason}:{verdict.tier}")
        if verdict.tier == chosen:
            break
        if verdict.reason in _TOLD:
            found.append(f"{verdict.reason}:{verdict.tier}")
    if ranking.ordered and chosen == ranking.ordered[0].name:
        found.extend(ranking.reasons)
    if chosen in weaker and DEGRADED not in found:
        found.append(LAST_RESORT)
    return tuple(found)


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
        verdict = next(v for reason, v in by_reason.items() if reason in _CAPABILITY)
        return NotApplicable(f"tier {verdict.tier} {verdict.detail}; pin another tier or use model auto")
    seen = "; ".join(f"{verdict.tier}: {verdict.detail or verdict.reason}" for verdict in verdicts)
    return NoEligibleTier(f"no tier takes this request: {seen}")
