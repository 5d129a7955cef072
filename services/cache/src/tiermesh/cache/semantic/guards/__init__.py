"""What makes two questions ask different things, however alike they look.

Each guard is a pure function of two questions, lies in a file of its own, and says why it
refuses. All look at the single best candidate; one refusal is a miss. A guard in doubt refuses.

The order is from the plainest reason to the subtlest, so that the reason given is the one a person
would give; it has no bearing on what is refused.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from tiermesh.cache.semantic.alignment import LEAST_LIKENESS, aligned
from tiermesh.cache.semantic.guards import (
    code,
    entities,
    forms,
    language,
    manner,
    mention,
    numbers,
    polarity,
    prepositions,
    question_type,
    roles,
    senses,
    time,
    wording,
)
from tiermesh.cache.semantic.question import Question

Guard = Callable[[Question, Question], str | None]
"""Returns why the second question's answer does not do for the first, or None."""

GUARDS: tuple[tuple[str, Guard], ...] = (
    ("language", language.refuse),
    ("code", code.refuse),
    ("time", time.refuse),
    ("polarity", polarity.refuse),
    ("numbers", numbers.refuse),
    ("entities", entities.refuse),
    ("mention", mention.refuse),
    ("manner", manner.refuse),
    ("question_type", question_type.refuse),
    ("roles", roles.refuse),
    ("prepositions", prepositions.refuse),
    ("forms", forms.refuse),
    ("senses", senses.refuse),
    ("wording", wording.refuse),
)


@dataclass(frozen=True, slots=True)
class Refusal:
    """A candidate that was refused."""

    guard: str
    """Name of the guard."""
    why: str
    """What it saw, in words of the two questions: not for logs."""


def passed_before(refusal: Refusal | None) -> tuple[str, ...]:
    """Returns the guards that were asked before one refused, all of them where none did."""
    names = tuple(name for name, _ in GUARDS)
    return names if refusal is None else names[: names.index(refusal.guard)]


def refusal_of(asked: Question, known: Question, *, likeness: float = 1.0) -> Refusal | None:
    """Returns the first refusal of a candidate, or None where its answer will do.

    Args:
        asked: What is asked.
        known: What was answered.
        likeness: Cosine of the two; from `LEAST_LIKENESS` on they may differ in a word that means the same.
    """
    if likeness >= LEAST_LIKENESS:
        known = aligned(asked, known)
    for name, guard in GUARDS:
        why = guard(asked, known)
        if why is not None:
            return Refusal(name, why)
    return None
