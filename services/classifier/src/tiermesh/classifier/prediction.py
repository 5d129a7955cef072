"""What a learnt model says of a request, or why it says nothing."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from tiermesh.shared.rules import TaskName

RightBasis = Literal["outcomes", "judgement"]
"""Outcomes of a fleet, or the judgement of those who wrote the training prompts."""


@dataclass(frozen=True, slots=True)
class Prediction:
    """What the model says of one request. Confidences are shares of such requests in which it was right."""

    task_type: TaskName
    task_confidence: float
    complexity: float
    """How strong a model it needs, 0 to 1."""
    complexity_confidence: float
    """That the complexity is right within 0.15."""
    answer_tokens: int
    """Expected length of the answer."""
    answer_tokens_confidence: float
    """That the answer's length is right within a factor of two."""
    small_right: float
    """Probability that the small model's answer would be right."""
    large_right: float
    """Probability that the large model's answer would be right."""
    right_basis: RightBasis = "judgement"
    """What these two rest on."""


Reason = Literal["model_timeout", "model_failed", "model_busy"]


@dataclass(frozen=True, slots=True)
class Unanswered:
    """The model was asked and gave no answer in time."""

    reason: Reason
