"""How hard a request is and of what kind."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

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
