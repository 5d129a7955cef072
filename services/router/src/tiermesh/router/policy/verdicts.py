"""Why each tier was chosen or passed over, in words and in the short reasons of labels."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from tiermesh.router.classification import Classification
from tiermesh.router.policy.gain import Gain
from tiermesh.router.policy.ranking import DEGRADED, Ranking
from tiermesh.shared.config import TierConfig

LAST_RESORT = "last_resort"
"""Reason of an answer from a tier weaker than the request needs."""

UNCERTAIN = "context_uncertain"
CAPABILITY = frozenset({"context_too_long", "no_logprobs", "no_tool_history"})
"""Verdicts that say what a tier can hold or do, as opposed to what it is meant for."""
_TOLD = CAPABILITY | {"language_not_served", "recently_unavailable"}
"""Verdicts on cheaper tiers that explain a choice where the matched rules do not."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """Whether one tier could take the request, and why."""

    tier: str
    eligible: bool
    reason: str
    detail: str = ""


def verdict_on(
    tier: TierConfig,
    ordered: Sequence[TierConfig],
    weaker: frozenset[str],
    unavailable: frozenset[str],
    judged: Classification,
    ranking: Ranking,
    gains: Mapping[str, Gain],
    *,
    pinned: bool,
) -> Verdict:
    """Returns the verdict on a tier that could take the request."""
    first = tier is ordered[0]
    if pinned:
        if first:
            return Verdict(tier.name, True, "pinned")
        return Verdict(tier.name, False, "not_pinned", f"{ordered[0].name} serves the same model and comes first")
    if tier.name in ranking.passed_over and not first:
        return Verdict(tier.name, True, *ranking.passed_over[tier.name])
    if tier.name in unavailable and not first:
        return Verdict(tier.name, True, "recently_unavailable", "has just failed; tried after all others")
    if tier.name in weaker and {tier.name, ordered[0].name} <= gains.keys():
        detail = f"{_worth(tier, gains)} is worth less than {_worth(ordered[0], gains)}"
        return Verdict(tier.name, True, "less_gain", f"{detail}; used only if no stronger tier answers")
    if tier.name in weaker:
        detail = f"complexity {judged.complexity:.2f} is above its max_complexity {tier.max_complexity:.2f}"
        return Verdict(tier.name, True, "below_complexity", f"{detail}; used only if no stronger tier answers")
    if first:
        return Verdict(tier.name, True, "chosen", _worth(tier, gains) if tier.name in gains else "")
    if {tier.name, ordered[0].name} <= gains.keys():
        detail = f"{_worth(tier, gains)} is not worth its cost beside {_worth(ordered[0], gains)}"
        return Verdict(tier.name, True, "less_gain", detail)
    return Verdict(tier.name, True, "stronger", "could take it, but a cheaper tier is good enough")


def _worth(tier: TierConfig, gains: Mapping[str, Gain]) -> str:
    gain = gains[tier.name]
    return f"{tier.name} (right with {gain.right:.2f}, cost {gain.cost:.3g}, worth {gain.worth:+.3f})"


def reasons_of(
    classification: Classification | None,
    verdicts: Sequence[Verdict],
    ordered: Sequence[TierConfig],
    weaker: frozenset[str],
    ranking: Ranking,
    gains: Mapping[str, Gain],
    *,
    pinned: bool,
) -> tuple[str, ...]:
    """Returns the reasons of a decision, strongest first."""
    if pinned:
        return ("pinned", *(f"{UNCERTAIN}:{v.tier}" for v in verdicts if v.reason == UNCERTAIN))
    found: list[str] = []
    if classification is None:
        found.append("classifier:unavailable")
    elif classification.rules:
        found.extend(f"rule:{rule}" for rule in classification.rules)
    else:
        found.append(f"classifier:{classification.source}")
    chosen = ordered[0].name if ordered else ""
    for verdict in verdicts:
        if verdict.reason == UNCERTAIN:
            found.append(f"{verdict.reason}:{verdict.tier}")
        if verdict.tier == chosen:
            break
        if verdict.reason in _TOLD:
            found.append(f"{verdict.reason}:{verdict.tier}")
    if chosen in gains and not ranking.reasons:
        found.append(f"gain:{chosen}")
    if ranking.ordered and chosen == ranking.ordered[0].name:
        found.extend(ranking.reasons)
    if chosen in weaker and DEGRADED not in found:
        found.append(LAST_RESORT)
    return tuple(found)
