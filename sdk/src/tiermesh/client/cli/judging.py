"""Whether answers are right, and the log that a calibration is fitted to: pure, apart from `tiermesh judge`."""

from __future__ import annotations

import hashlib
import json
import random
import re
import unicodedata
from dataclasses import asdict, dataclass

from tiermesh.shared.calibration import Features, logistic

_SPACES = re.compile(r"\s+")
_HAN = re.compile(r"[\u3400-\u9fff]")
_PRETENDED_INTERCEPT, _PRETENDED_MEAN = 12.7, 25.8
"""Log odds of a simulated answer's being right, by its mean log-probability: its tokens are made up so that a quarter of
all answers then end below a confidence of 0.95, and half of these below 0.8."""


class WrongQuestion(ValueError):
    """A line is no question with right answers; the message says why."""


@dataclass(frozen=True, slots=True)
class Question:
    """A question that a text can be checked against."""

    text: str
    right: tuple[str, ...]
    """Words one of which a right answer holds."""


def parse_question(line: str) -> Question:
    """Reads `{"question": "...", "right": ["...", "..."]}`.

    Raises:
        WrongQuestion: it is not of that form.
    """
    try:
        row = json.loads(line)
    except ValueError:
        raise WrongQuestion("it is not JSON") from None
    if not isinstance(row, dict) or set(row) != {"question", "right"}:
        raise WrongQuestion('it must be an object of "question" and "right"')
    text, right = row["question"], row["right"]
    if not isinstance(text, str) or not text.strip():
        raise WrongQuestion("question must be a text")
    if not isinstance(right, list) or not right or not all(isinstance(word, str) and word.strip() for word in right):
        raise WrongQuestion("right must be a list of texts, one of which a right answer holds")
    return Question(text, tuple(right))


def is_right(question: Question, answer: str) -> bool:
    """Returns whether an answer holds one of the right words: as a whole word, or anywhere where words are not spaced."""
    folded = _fold(answer)
    return any(_holds(folded, _fold(word)) for word in question.right)


def pretended_right(question: Question, features: Features) -> bool:
    """Draws whether a simulated answer counts as right, the same for the same question and tokens.

    Made-up text can be neither right nor wrong. What is drawn follows its made-up log-probabilities, so that a
    calibration can be fitted and escalation tried; it says nothing about any model.
    """
    seed = hashlib.sha256(f"{question.text}\x1f{features.mean_logprob:.6f}".encode()).digest()
    odds = _PRETENDED_INTERCEPT + _PRETENDED_MEAN * features.mean_logprob
    return random.Random(seed).random() < logistic(odds)  # noqa: S311 -- repeatable on purpose


def write_line(*, tier: str, model: str, task_type: str, right: bool, features: Features, simulated: bool) -> str:
    """Returns a line of the log, as `tiermesh calibrate` reads it."""
    rounded = {name: round(value, 4) for name, value in asdict(features).items()}
    row = {"tier": tier, "model": model, "task_type": task_type, "right": right, "features": rounded}
    return json.dumps({**row, "simulated": True} if simulated else row)


def _fold(text: str) -> str:
    return _SPACES.sub(" ", unicodedata.normalize("NFKC", text).casefold()).strip()


def _holds(text: str, word: str) -> bool:
    if _HAN.search(word):
        return word in text
    # A digit must not be part of a longer number: 7 is not in 70, 1.7 or 1,700.
    found = re.search(rf"(?<![^\W\u3400-\u9fff])(?<!\d[.,]){re.escape(word)}(?![^\W\u3400-\u9fff])(?![.,]\d)", text)
    return found is not None
