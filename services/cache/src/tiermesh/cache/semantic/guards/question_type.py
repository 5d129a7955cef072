"""How, where and whether are different questions about the same thing."""

from __future__ import annotations

from tiermesh.cache.semantic.question import Question

_ALIKE = (frozenset({"what", "do"}),)


def refuse(asked: Question, known: Question) -> str | None:
    """Refuses questions of different kinds."""
    if asked.kind == known.kind:
        return None
    if any({asked.kind, known.kind} <= kinds for kinds in _ALIKE) and _is_noun_phrase(asked) and _is_noun_phrase(known):
        return None
    return f"{asked.kind} and {known.kind}"


def _is_noun_phrase(question: Question) -> bool:
    # `Capital of France` asks what it is; `reset my password` asks for a deed.
    return question.kind != "do" or question.language == "zh" or "of" in question.words
