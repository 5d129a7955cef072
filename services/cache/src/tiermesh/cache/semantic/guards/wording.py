"""Every word that carries content must have its like in the other question.

The last and strictest guard: `reset` and `change`, `order` and `refund` are neighbours for an
embedder. Two words are alike only if the lexicon says so, or they share their stem.
"""

from __future__ import annotations

from tiermesh.cache.semantic.question import Question

_ENOUGH = 2
_PERSONS = frozenset({"i", "me", "you"})
_EMPTY = frozenset({"a", "an", "the", "is", "are", "was", "were", "do", "does", "did", "of", "to", "'s"})


def refuse(asked: Question, known: Question) -> str | None:
    """Refuses where a word of one has no like in the other."""
    one, other = set(asked.content), set(known.content)
    if asked.noun and known.noun and asked.noun != known.noun:
        return f"which {asked.noun} and which {known.noun}"
    if not one or (asked.kind == "do" and len(one) < _ENOUGH and asked.language == "en"):
        return "too little is left to compare"
    if len(one) == 1 and _PERSONS & set(asked.tokens) and _small(asked) != _small(known):
        return "its small words say what one of them means"
    if one == other or (asked.language == "zh" and _spelled(asked) == _spelled(known)):
        return None
    odd = sorted(one ^ other)
    return f"only one has {', '.join(odd[:3])}"


def _spelled(question: Question) -> list[str]:
    # Chinese has no spaces, so one text may be cut where another is not.
    return sorted("".join(question.content))


def _small(question: Question) -> set[str]:
    # `What things can you do` and `what things are you into` share all that is large.
    return set(question.tokens) - _EMPTY
