"""The classifier's judgement, as far as the router uses it."""

from __future__ import annotations

from dataclasses import dataclass

from tiermesh.api.classifier.v1 import classifier_pb2
from tiermesh.router.policy.gain import RightProbabilities
from tiermesh.router.policy.task_types import task_type_name


@dataclass(frozen=True, slots=True)
class Classification:
    """One request, judged."""

    task_type: str
    complexity: float
    source: str
    rules: tuple[str, ...] = ()
    languages: tuple[str, ...] = ()
    prompt_tokens: int = 0
    """0 where the classifier did not estimate it."""
    safety_flags: tuple[str, ...] = ()
    """What in the prompt asks for care, such as `self_harm`."""
    confidence: float | None = None
    """How sure the classifier is of the kind of work; None where it did not answer."""
    answer_tokens: int = 0
    """Expected length of the answer; 0 where that is not known."""
    right: RightProbabilities | None = None
    """How likely models are to be right; None where the classifier did not say."""


def read_classification(response: classifier_pb2.ClassifyResponse | None) -> Classification | None:
    """Returns what a classifier's answer says; None where there is none."""
    if response is None:
        return None
    right = None
    if response.HasField("small_right_probability") and response.HasField("large_right_probability"):
        right = RightProbabilities(
            response.small_right_probability, response.large_right_probability, response.right_probability_basis
        )
    return Classification(
        task_type=task_type_name(response.task_type),
        complexity=response.complexity,
        source=response.source,
        rules=tuple(response.rules),
        languages=tuple(response.languages),
        prompt_tokens=response.estimated_prompt_token_count,
        confidence=response.confidence,
        safety_flags=tuple(response.safety_flags),
        answer_tokens=response.expected_output_token_count,
        right=right,
    )
