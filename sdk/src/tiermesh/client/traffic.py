"""What a traffic log says about both tiers, though each request was answered by one.

How likely a tier is to be right is fitted per tier as a logistic model of the complexity, on those of its answers that
somebody judged; every request of the log is then known by two probabilities. (The direct method of off-policy
evaluation; M. Dudik, J. Langford and L. Li, "Doubly robust policy evaluation and learning", 2011.) A tier that only ever
got easy requests was never seen at hard ones: the span of complexities that its judged answers cover is part of the
result, and beyond it the model is a guess.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from tiermesh.api.outcome.v1 import record_pb2
from tiermesh.client.thresholds import Known
from tiermesh.shared.calibration import fit_logistic, logistic
from tiermesh.shared.outcomes import read_outcomes, task_type_of, verdict

LEAST_JUDGED = 50
"""Judged answers that each of the two tiers must have."""


@dataclass(frozen=True, slots=True)
class Seen:
    """What judged answers of one tier tell."""

    tier: str
    judged: int
    right_share: float
    lowest: float
    """Least complexity among them."""
    highest: float
    intercept: float
    slope: float

    def right(self, complexity: float) -> float:
        """Returns how likely an answer to a request of that complexity is right."""
        return logistic(self.intercept + self.slope * complexity)


@dataclass(frozen=True, slots=True)
class Traffic:
    """The requests of a log, and where what is known of them comes from."""

    known: list[Known]
    small: Seen
    large: Seen


def read_traffic(lines: Iterable[str], *, small: str, large: str) -> Traffic:
    """Reads an export of the log of outcomes.

    Args:
        lines: JSON lines.
        small: Name of the small tier.
        large: Name of the large tier.

    Raises:
        OutcomeError: a line is no outcome.
        ValueError: too few answers of one of the tiers were judged.
    """
    outcomes = [outcome for outcome in read_outcomes(lines) if outcome.HasField("decision")]
    seen = {tier: _see(tier, outcomes) for tier in (small, large)}
    known = [
        Known(
            complexity=outcome.features.complexity,
            small_right=seen[small].right(outcome.features.complexity),
            large_right=seen[large].right(outcome.features.complexity),
            task_type=task_type_of(outcome),
            prompt_tokens=outcome.features.prompt_token_count,
            answer_tokens=outcome.tries[-1].usage.completion_token_count if outcome.tries else 0,
        )
        for outcome in outcomes
        if not outcome.decision.pinned and _is_between(outcome, small, large)
    ]
    if not known:
        raise ValueError(f"no request of the log could have gone to {small} or {large}")
    return Traffic(known, seen[small], seen[large])


def _see(tier: str, outcomes: Sequence[record_pb2.Outcome]) -> Seen:
    answers = [
        (outcome.features.complexity, opinion)
        for outcome in outcomes
        if outcome.result.tier == tier and outcome.result.outcome == "ok" and (opinion := verdict(outcome)) is not None
    ]
    if len(answers) < LEAST_JUDGED:
        raise ValueError(
            f"{len(answers)} answers of {tier} were judged, and {LEAST_JUDGED} are the least; report on more of them"
            " (tiermesh feedback), let a share of requests be answered by another tier (balance.exploration), or use an"
            " evaluation set"
        )
    rights = [score for _, score in answers]
    share = (sum(rights) + 1) / (len(rights) + 2)
    try:
        intercept, slope = fit_logistic([(1.0, complexity) for complexity, _ in answers], rights)
    except ValueError:
        # All alike: how the complexity matters cannot be known, and the share is that of Laplace.
        intercept, slope = _log_odds(share), 0.0
    places = [complexity for complexity, _ in answers]
    return Seen(tier, len(answers), sum(rights) / len(rights), min(places), max(places), intercept, slope)


def _log_odds(share: float) -> float:
    return math.log(share / (1.0 - share))


def _is_between(outcome: record_pb2.Outcome, small: str, large: str) -> bool:
    """Returns whether the request was one of those that the two tiers share."""
    return outcome.result.tier in {small, large} or any(each.tier in {small, large} for each in outcome.tries)
