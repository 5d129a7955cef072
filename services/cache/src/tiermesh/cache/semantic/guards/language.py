"""Both questions must be in one language that the other guards can read."""

from __future__ import annotations

from tiermesh.cache.semantic.question import Question

LANGUAGES = frozenset({"en", "zh"})


def refuse(asked: Question, known: Question) -> str | None:
    """Refuses texts of two languages, and of languages without rules."""
    if asked.language != known.language:
        return f"{asked.language} and {known.language}"
    if asked.language not in LANGUAGES:
        return "no rules for this language or script"
    return None
