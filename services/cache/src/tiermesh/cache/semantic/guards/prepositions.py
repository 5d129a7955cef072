"""To prepare a meeting is not to prepare for one: the small word between a deed and a thing says how they belong together.

Small words are no content, as most of them go without saying; the one right after a deed does not.
"""

from __future__ import annotations

from itertools import pairwise

from tiermesh.cache.semantic.lexicon import english
from tiermesh.cache.semantic.question import Question
from tiermesh.cache.semantic.stems import stem
from tiermesh.cache.semantic.wordnet import is_verb

_SUBJECTS = frozenset(
    {"i", "you", "we", "they", "he", "she", "it", "people", "one", "someone", "somebody", "to", "not"}
)
_SMALL = {
    "for": "for", "to": "to", "into": "to", "onto": "to", "with": "with", "by": "with", "via": "with", "using": "with", "in": "in", "at": "at",
    "inside": "in", "on": "on", "upon": "on", "as": "as", "of": "of", "about": "about", "from": "from", "off": "off", "like": "like",
    "against": "against", "over": "over", "under": "under", "through": "through", "after": "after", "before": "before", "around": "around",
}  # fmt: skip
_DETERMINERS = frozenset(
    {
        "a",
        "an",
        "the",
        "my",
        "your",
        "our",
        "his",
        "her",
        "their",
        "its",
        "this",
        "that",
        "these",
        "those",
        "some",
        "any",
        "new",
        "me",
        "us",
    }
)
_NO_DEEDS = frozenset({"do", "be", "have", "need", "want", "like", "can", "will", "get", "is", "am", "are", "go"})
_WITHIN = frozenset({"in", "on", "for", "with", "from", "at"})
_PARTICLES = frozenset({"up", "out", "down", "away", "back"})
_EITHER = (
    (frozenset({"talk", "speak", "chat", "connect", "pair", "link", "compare", "sync", "meet", "communicate", "register"}), frozenset({"to", "with"})),
    (frozenset({"search", "look", "check", "shop", "browse"}), frozenset({"in", "on", "at"})),
    (frozenset({"work", "live", "stay", "study", "eat", "arrive", "sit", "sleep"}), frozenset({"in", "on", "at"})),
    (frozenset({"visit", "travel", "fly", "move"}), frozenset({"to", "in"})),
    (frozenset({"play", "watch", "open", "run", "print", "write", "draw", "save", "view", "read"}), frozenset({"in", "on"})),
)  # fmt: skip
"""Deeds, and small words that say the same after them."""


def refuse(asked: Question, known: Question) -> str | None:
    """Refuses where a deed and a thing that both name belong together in different ways."""
    if asked.language != "en":
        return None
    if [word for word in asked.words if word in _SMALL] == [word for word in known.words if word in _SMALL]:
        return None
    if both := _side_by_side(asked) & _apart(known) or _side_by_side(known) & _apart(asked):
        return f"{' '.join(min(both))} is one thing in one, and two in the other"
    mine, theirs = _joined(asked), _joined(known)
    for pair in mine.keys() & theirs.keys():
        one, other = mine[pair], theirs[pair]
        if one != other and not any(pair[0] in deeds and {one, other} <= smalls for deeds, smalls in _EITHER):
            return f"{pair[0]} {one or 'a'} {pair[1]} and {pair[0]} {other or 'a'} {pair[1]}"
    return None


def _side_by_side(question: Question) -> set[tuple[str, str]]:
    # `A water bottle`.
    return {(stem(one), stem(other)) for one, other in pairwise(question.words)}


def _apart(question: Question) -> set[tuple[str, str]]:
    """Returns what a small word stands between: `water in a bottle`."""
    words = question.words
    found: set[tuple[str, str]] = set()
    for at, word in enumerate(words):
        if at and word in _WITHIN:
            end = at + 1
            while end < len(words) and words[end] in _DETERMINERS:
                end += 1
            if end < len(words):
                found.add((stem(words[at - 1]), stem(words[end])))
    return found


def _joined(question: Question) -> dict[tuple[str, str], str]:
    """Returns deeds and what follows each, and the small word between the two, or nothing."""
    words, function = question.words, english().function
    found: dict[tuple[str, str], str] = {}
    for at, word in enumerate(words):
        deed = stem(word)
        if not (at and words[at - 1] in _SUBJECTS and is_verb(deed)) or deed in _NO_DEEDS:
            continue
        small, end = "", at + 1
        if words[end : end + 1] and words[end] in _PARTICLES:
            # `Look up to him` and `look him up` are deeds of their own.
            deed, end = f"{deed} {words[end]}", end + 1
        while end < len(words) and (words[end] in _SMALL or words[end] in _DETERMINERS):
            small = _SMALL.get(words[end], small)
            end += 1
        if end < len(words) and (words[end] not in function):
            found.setdefault((deed, stem(words[end])), small)
    return found
