"""What a request looks like, whatever its words: the numbers that the learnt model sees beside the text."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray
from tiermesh.classifier.features import Features

NAMES = (
    "log_chars",
    "log_words",
    "chars_per_word",
    "log_lines",
    "log_first_line_chars",
    "log_longest_last_line_chars",
    "log_digits",
    "digit_share",
    "letter_share",
    "mark_share",
    "cjk_share",
    "other_share",
    "log_emoji",
    "question_marks",
    "log_full_stops",
    "log_commas",
    "money_signs",
    "operator_share",
    "underscores",
    "negations",
    "distinct_word_share",
    "code_fences",
    "numbered_steps",
    "list_items",
    "log_prompt_tokens",
    "turns",
    "system_prompt",
    "tool_history",
)
"""Of each number, in order. Shares are of the characters of the last user message."""

_LAST_LINES = 5
_MANY = 8.0


def read_structure(features: Features) -> NDArray[np.float32]:
    """Returns one number for each of `NAMES`; finite, whatever the text."""
    text, counts = features.text, features.counts
    chars = max(1, counts.chars)
    words = text.split()
    lines = text.split("\n")
    cjk = counts.han + counts.kana + counts.hangul
    numbers: Sequence[float] = (
        math.log1p(counts.chars),
        math.log1p(counts.words),
        min(40.0, counts.chars / max(1, counts.words)),
        math.log1p(counts.lines),
        math.log1p(len(lines[0])),
        math.log1p(max(map(len, lines[-_LAST_LINES:]))),
        math.log1p(counts.digits),
        counts.digits / chars,
        counts.letters / chars,
        counts.marks / chars,
        cjk / chars,
        (counts.other_letters + counts.accented) / chars,
        math.log1p(counts.emoji),
        min(_MANY, features.question_marks),
        math.log1p(text.count(".")),
        math.log1p(text.count(",")),
        min(_MANY, text.count("$") + text.count("€") + text.count("元")),
        sum(text.count(sign) for sign in "+*/=^<>×÷") / max(1, len(text)),
        min(_MANY, text.count("_")),
        min(_MANY, text.count(" not ") + text.count(" except") + text.count("不")),
        len(set(words)) / max(1, len(words)),
        min(_MANY, features.code_fences),
        min(_MANY, features.numbered_steps),
        min(_MANY, features.list_items),
        math.log1p(features.prompt_tokens),
        min(_MANY, features.turns),
        float(features.system_prompt),
        float(features.tool_history),
    )
    return np.array(numbers, np.float32)


def encode_structure(numbers: NDArray[np.float32], thresholds: NDArray[np.float32]) -> NDArray[np.float32]:
    """Returns the numbers, followed by which thresholds each of them exceeds.

    A linear head over steps can follow any curve of one number, such as "neither short nor long".

    Args:
        numbers: As of `read_structure`, one text a row or a single one: shape (..., n).
        thresholds: Shape (n, k), ascending in each row.

    Returns:
        Shape (..., n + n * k).
    """
    steps = (numbers[..., None] > thresholds).astype(np.float32)
    return np.concatenate([numbers, steps.reshape(*numbers.shape[:-1], -1)], axis=-1)
