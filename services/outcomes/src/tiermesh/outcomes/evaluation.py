"""Reads what a report on models is made from: an evaluation set, or a log of outcomes."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from tiermesh.api.outcome.v1 import record_pb2
from tiermesh.outcomes.models import Evaluated
from tiermesh.shared.outcomes import task_type_of, verdict


class EvaluationError(Exception):
    """A line of an evaluation set cannot be used; the message names it."""


def read_evaluation(lines: Iterable[str]) -> Iterator[Evaluated]:
    """Yields the requests of an evaluation set, one JSON object a line.

        {"task_type": "qa", "scores": {"l1": 1, "l2": 0.5}, "prompt_tokens": 40, "answer_tokens": {"l1": 9, "l2": 12}}

    Scores are from 0 (wrong) to 1 (right); token counts may be left out, and `answer_tokens` may be one number for all.

    Raises:
        EvaluationError: a line is not what it should be.
    """
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        try:
            yield _row(json.loads(line))
        except (ValueError, TypeError, KeyError, AttributeError) as error:
            detail = f"{error.args[0]!r} is missing" if isinstance(error, KeyError) else str(error)
            raise EvaluationError(f"line {number}: {detail}") from None


def from_outcomes(outcomes: Iterable[record_pb2.Outcome]) -> Iterator[Evaluated]:
    """Yields the requests of a log whose answers somebody judged, each with the score of the tier that answered."""
    for outcome in outcomes:
        score = verdict(outcome)
        answered = [each for each in outcome.tries if each.outcome == "answered"]
        if score is None or outcome.result.outcome != "ok" or not answered or outcome.decision.pinned:
            continue
        tier = outcome.result.tier
        chances = {each.tier: each.probability for each in outcome.decision.candidates}
        chance = chances.get(tier, 0.0)
        yield Evaluated(
            task_type_of(outcome),
            {tier: score},
            answered[-1].usage.prompt_token_count,
            {tier: answered[-1].usage.completion_token_count},
            # After an escalation the tier was not chosen by chance: the request counts once.
            weight=1.0 / ((chance or 1.0) * (outcome.sample_rate or 1.0)),
            random=0.0 < chance < 1.0,
        )


def _row(raw: Any) -> Evaluated:
    if not isinstance(raw, dict):
        raise TypeError("must be a JSON object")
    scores = {str(tier): float(score) for tier, score in raw["scores"].items()}
    if not scores or not all(0 <= score <= 1 for score in scores.values()):
        raise ValueError("scores must hold numbers from 0 to 1, by tier")
    kind = raw["task_type"]
    if not isinstance(kind, str) or not kind:
        raise ValueError("task_type must be a name")
    answers = raw.get("answer_tokens", {})
    lengths: Mapping[str, int] = (
        {str(tier): int(count) for tier, count in answers.items()}
        if isinstance(answers, dict)
        else dict.fromkeys(scores, int(answers))
    )
    return Evaluated(kind, scores, int(raw.get("prompt_tokens", 0)), lengths)
