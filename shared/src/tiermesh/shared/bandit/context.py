"""What the bandit sees of a request: a few numbers of about the same size, the same live as from a log."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

Vector = NDArray[np.float64]

CONTEXT_VERSION = 1
"""Of the meaning of the numbers: what was learnt from others is of no use."""
TASKS = (
    "summarise", "rewrite", "extract", "translate", "qa", "chat", "code", "math", "tool_use", "long_context", "planning",
    "label",
)  # fmt: skip
"""Kinds of work that models are asked about; any other is none of them."""
NAMES = (
    "always", "complexity", "unsure", "small_right", "large_right", "right_known", "log_prompt_tokens",
    "log_answer_tokens", "log_chars", "log_lines", "digit_share", "mark_share", "cjk_share", "code", "questions", "turns",
    *TASKS,
)  # fmt: skip
UNKNOWN_RIGHT = 0.5
"""Stands for a probability that nobody has named."""


@dataclass(frozen=True, slots=True)
class Seen:
    """What was known of a request before it was answered."""

    task_type: str
    complexity: float
    confidence: float = 0.0
    prompt_tokens: int = 0
    answer_tokens: int = 0
    """Expected, or 0."""
    small_right: float | None = None
    large_right: float | None = None
    measures: Mapping[str, float] = field(default_factory=dict)
    """The classifier's features, by name."""


def context_of(seen: Seen) -> Vector:
    """Returns one number for each of `NAMES`, nearly all from 0 to 1; finite, whatever is put in."""
    measures = seen.measures
    known = seen.small_right is not None and seen.large_right is not None
    numbers = (
        1.0,
        seen.complexity,
        1.0 - seen.confidence,
        UNKNOWN_RIGHT if seen.small_right is None else seen.small_right,
        UNKNOWN_RIGHT if seen.large_right is None else seen.large_right,
        float(known),
        _log(seen.prompt_tokens, 10),
        _log(seen.answer_tokens, 10),
        _log(measures.get("char_count", 0.0), 12),
        _log(measures.get("line_count", 0.0), 6),
        2 * measures.get("digit_share", 0.0),
        2 * measures.get("mark_share", 0.0),
        measures.get("cjk_share", 0.0),
        float(measures.get("code_fence_count", 0.0) > 0),
        min(3.0, measures.get("question_mark_count", 0.0)) / 3,
        _log(measures.get("turn_count", 1.0), 4),
        *(float(seen.task_type == task) for task in TASKS),
    )
    vector = np.array(numbers, np.float64)
    return np.clip(np.nan_to_num(vector, nan=0.0, posinf=2.0, neginf=-2.0), -2.0, 2.0)


def _log(value: float, scale: float) -> float:
    return math.log1p(max(0.0, value)) / scale
