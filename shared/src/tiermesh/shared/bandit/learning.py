"""From outcomes with feedback to what is believed of tiers. Learning the same outcomes gives the same beliefs."""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Mapping
from dataclasses import dataclass

import numpy as np
from tiermesh.api.classifier.v1 import classifier_pb2
from tiermesh.api.outcome.v1 import record_pb2
from tiermesh.shared.bandit.context import Seen, Vector, context_of
from tiermesh.shared.bandit.posterior import Posterior
from tiermesh.shared.outcomes import verdict

Prior = Callable[[str, Seen], float]
"""(tier, request) -> the probability of a right answer that the classifier says."""


@dataclass(frozen=True, slots=True)
class Lesson:
    """One answer and what was thought of it."""

    tier: str
    context: Vector
    right: float
    """0 to 1."""
    prior: float


def seen_of(features: record_pb2.RequestFeatures) -> Seen:
    """Returns what was known of a logged request."""
    name = classifier_pb2.TaskType.Name(features.task_type) if features.task_type in _KNOWN else ""
    return Seen(
        task_type=name.removeprefix("TASK_TYPE_").lower(),
        complexity=features.complexity,
        confidence=features.confidence,
        prompt_tokens=features.prompt_token_count,
        answer_tokens=features.expected_output_token_count,
        small_right=features.small_right_probability if features.HasField("small_right_probability") else None,
        large_right=features.large_right_probability if features.HasField("large_right_probability") else None,
        measures=features.measures,
    )


def lesson_of(outcome: record_pb2.Outcome, prior: Prior, *, simulated: Container[str] = ()) -> Lesson | None:
    """Returns what an outcome teaches about the tier that answered, or None: no opinion, no tier, or a cached answer.

    Args:
        outcome: The record.
        prior: What the classifier said.
        simulated: Tiers that are simulated. What was made up teaches about these alone, and about these nothing else does.
    """
    right = verdict(outcome)
    tier = outcome.result.tier
    if right is None or not tier or outcome.result.cache == "hit" or outcome.result.simulated != (tier in simulated):
        return None
    seen = seen_of(outcome.features)
    return Lesson(tier, context_of(seen), right, prior(tier, seen))


def learn(lessons: Iterable[Lesson], *, strength: float) -> Mapping[str, Posterior]:
    """Returns what is believed of each tier after some lessons, whatever their order."""
    by_tier: dict[str, list[Lesson]] = {}
    for lesson in lessons:
        by_tier.setdefault(lesson.tier, []).append(lesson)
    return {
        tier: Posterior.fresh(strength).seeing(
            np.stack([lesson.context for lesson in some]), np.array([lesson.right - lesson.prior for lesson in some])
        )
        for tier, some in by_tier.items()
    }


_KNOWN = frozenset(classifier_pb2.TaskType.values())
