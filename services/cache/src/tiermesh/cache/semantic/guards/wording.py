"""Every word that carries content must have its like in the other question.

The last and strictest guard: `reset` and `change`, `order` and `refund` are neighbours for an
embedder. Two words are alike only if the lexicon says so, or they share their stem.
"""

from __future__ import annotations

import re
from itertools import pairwise

from tiermesh.cache.semantic.question import Question

_ENOUGH = 2
_SUPERLATIVE = re.compile(r"[a-z]{3,}est")
_GETTING = frozenset({"how", "howlong", "where"})
"""Kinds in which getting a thing goes without saying: `how long does it take to get a passport`."""
_LIGHT = frozenset({"available", "belong", "exist", "specific", "particular", "actual", "ever"})
"""Words without which a question of at least two others asks the same."""
_OBJECT_MARKS = frozenset({"把", "将"})
"""Words that only say that an object follows; whose it is, is for `roles`."""
_OF_PLACE = frozenset({"where"})
"""Kinds whose small words say nothing: where I can and where I do find it."""
_DETERMINERS = frozenset({"a", "an", "the", "my", "your", "our"})
_MOST = frozenset({"most", "least", "best", "worst"})
_PERSONS = frozenset({"i", "me", "you"})
_EMPTY = frozenset({"a", "an", "the", "is", "are", "was", "were", "do", "does", "did", "of", "to", "'s"})


def refuse(asked: Question, known: Question) -> str | None:
    """Refuses where a word of one has no like in the other."""
    one, other = _compared(asked, known), _compared(known, asked)
    if asked.noun and known.noun and asked.noun != known.noun:
        return f"which {asked.noun} and which {known.noun}"
    if not one or (asked.kind == "do" and len(one) < _ENOUGH and asked.language == "en"):
        return "too little is left to compare"
    if (
        asked.kind not in _OF_PLACE
        and len(one) == 1
        and _PERSONS & set(asked.tokens)
        and _small(asked) != _small(known)
    ):
        return "its small words say what one of them means"
    if one == other or (asked.language == "zh" and _spelled(asked) == _spelled(known)):
        return None
    if one ^ other == {"get"} and asked.kind in _GETTING and _gets_a_thing(asked if "get" in one else known):
        return None
    if one ^ other == {"from"} and "delete" in one & other:
        # What is removed from a thing is on it, or in it.
        return None
    if len(one ^ other) == 1 and one ^ other <= _LIGHT and len(one & other) >= _ENOUGH and asked.language == "en":
        return None
    odd = sorted(one ^ other)
    return f"only one has {', '.join(odd[:3])}"


def _compared(mine: Question, theirs: Question) -> set[str]:
    """Returns the words to compare: `which ocean is the largest` asks for the largest ocean."""
    words = set(mine.content)
    if theirs.noun in words and any(word in _MOST or _SUPERLATIVE.fullmatch(word) for word in words):
        words.discard(theirs.noun)
    return words - _OBJECT_MARKS if mine.language == "zh" else words


def _gets_a_thing(question: Question) -> bool:
    # `Get a passport`, and not `get paid`.
    return any(pair[0] == "get" and pair[1] in _DETERMINERS for pair in pairwise(question.words))


def _spelled(question: Question) -> list[str]:
    # Chinese has no spaces, so one text may be cut where another is not.
    return sorted("".join(token for token in question.content if token not in _OBJECT_MARKS))


def _small(question: Question) -> set[str]:
    # `What things can you do` and `what things are you into` share all that is large.
    return set(question.tokens) - _EMPTY
