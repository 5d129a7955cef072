"""How hard a request is and of what kind."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from tiermesh.classifier.prediction import Prediction
from tiermesh.shared.rules import TaskName

Source = Literal["rules", "model", "default"]


@dataclass(frozen=True, slots=True)
class Judgement:
    """One request, judged."""

    task_type: TaskName
    complexity: float
    """How strong a model it needs, 0 to 1."""
    confidence: float
    """How sure the task type is, 0 to 1."""
    rules: tuple[str, ...]
    """What matched, strongest first."""
    source: Source
    """What decided."""
    overruns: int = 0
    """Patterns that were cut off because they took too long."""
    prediction: Prediction | None = None
    """What the learnt model said, where it was asked and answered."""
    fallback_reason: str = ""
    """Why rules decided what the learnt model was asked about; empty where they did not have to."""
