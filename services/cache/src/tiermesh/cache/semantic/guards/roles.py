"""Who does what to whom: the same words in another order can ask another thing."""

from __future__ import annotations

from tiermesh.cache.semantic.question import Question

_MARKS = {
    "from": "from", "to": "to", "into": "to", "onto": "to", "than": "than", "before": "before", "after": "after",
    "against": "against", "by": "by", "with": "with", "over": "over", "under": "under", "per": "per", "between": "between",
    "从": "from", "到": "to", "至": "to", "比": "than", "被": "by", "给": "to", "把": "object", "将": "object", "向": "to",
    "往": "to", "成": "to", "跟": "with", "对": "to",
}  # fmt: skip
"""Words that say which part the word after them plays."""
_DIRECTED = frozenset(_MARKS) - {"with", "by"} | frozenset("换转为借欠送打怕加赢输再先告诉")
_SKIPPED = frozenset({"the", "a", "an", "my", "your", "our", "their", "his", "her", "this", "these", "do", "of", "的"})
_LINKS = frozenset(
    {"of", "'s", "for", "in", "on", "at", "a", "an", "the", "my", "your", "的", "is", "are", "does", "do"}
)
_FIXED = frozenset({"howmany", "howmuch", "多少", "do"})
"""Kinds in which any other order may ask another thing: `schedule a meeting` and `the meeting schedule`."""
_PERSONS = {
    "i": "i", "me": "i", "we": "i", "us": "i", "myself": "i", "my": "my", "mine": "my", "our": "my", "ours": "my",
    "you": "you", "yourself": "you", "your": "your", "yours": "your",
}  # fmt: skip
_OF_PERSONS = frozenset({"what", "who", "is", "can", "will", "where", "when", "should"})
_FEW = 2
_HERE = frozenset({"this", "these", "those", "here", "这", "那"})
_THIRD = frozenset({"he", "him", "his", "she", "her", "hers", "they", "them", "their", "他", "她"})


def refuse(asked: Question, known: Question) -> str | None:
    """Refuses where shared words change places, or parts, in a way that can change who does what."""
    one, other = parts(asked), parts(known)
    for token in one.keys() & other.keys():
        if one[token] != other[token]:
            return f"{one[token]} and {other[token]} {token}"
    return _order(asked, known, one, other) or _person(asked, known)


def parts(question: Question) -> dict[str, str]:
    """Returns words of a question and the part each plays, where a word before it says so."""
    content = set(question.content)
    found: dict[str, str] = {}
    mark = ""
    for token in question.tokens:
        if token in _MARKS:
            mark = _MARKS[token]
        elif token in content:
            if mark:
                found[token] = mark
            mark = ""
        elif token not in _SKIPPED:
            mark = ""
    return found


def _order(asked: Question, known: Question, one: dict[str, str], other: dict[str, str]) -> str | None:
    shared = set(asked.content) & set(known.content)
    mine = [token for token in asked.content if token in shared]
    theirs = [token for token in known.content if token in shared]
    if mine == theirs:
        return None
    rotated = any(mine[at:] + mine[:at] == theirs for at in range(1, len(mine)))
    place = {token: at for at, token in enumerate(theirs)}
    for at, first in enumerate(mine):
        for second in mine[at + 1 :]:
            if place[first] < place[second] or _marked_alike(one, other, first, second):
                continue
            if (
                asked.kind in _FIXED
                or _directed(asked, first, second)
                or _directed(known, second, first)
                or not (rotated or _linked(asked, first, second) or _linked(known, second, first))
            ):
                return f"{first} and {second} change places"
    return None


def _marked_alike(one: dict[str, str], other: dict[str, str], first: str, second: str) -> bool:
    # `to the airport from downtown` and `from downtown to the airport`: their marks carry the parts.
    return all(one.get(t) == other.get(t) for t in (first, second)) and any(one.get(t) for t in (first, second))


def _between(question: Question, first: str, second: str) -> list[str] | None:
    tokens = list(question.tokens)
    if first not in tokens or second not in tokens:
        return None
    start, end = tokens.index(first), tokens.index(second)
    return tokens[start + 1 : end] if start < end else None


def _directed(question: Question, first: str, second: str) -> bool:
    between = _between(question, first, second)
    # A word that cannot be found again was rewritten: in doubt, its place matters.
    return between is None or any(token in _DIRECTED for token in between)


def _linked(question: Question, first: str, second: str) -> bool:
    between = _between(question, first, second)
    return between is not None and all(token in _LINKS for token in between)


def _person(asked: Question, known: Question) -> str | None:
    if bool(_THIRD & set(asked.words)) != bool(_THIRD & set(known.words)):
        return "only one is about somebody else"
    if _HERE & set(asked.words) != _HERE & set(known.words):
        return "only one points at something"
    if asked.language == "zh":
        # Who is meant is left out as often as not.
        return None
    if _is_about_doing(asked, known) and _doing(asked) != _doing(known):
        return "both you and I take part, and not alike"
    one, other = _persons(asked), _persons(known)
    if {"my", "your"} == (one ^ other) & {"my", "your"} or (asked.kind != "how" and {"i", "you"} <= one ^ other):
        return "one is about me, the other about you"
    if asked.kind == "do" and (one != other or _objects(asked) != _objects(known)):
        return "only one is about me or you"
    # `How do I` and `how to`, `find my invoice` and `find invoices` are alike; what is asked about a person is not.
    if asked.kind in _OF_PERSONS and len(asked.content) < _FEW and one != other:
        return "only one is about me or you"
    return None


def _persons(question: Question) -> set[str]:
    # Tokens, not words: `can you tell me` is gone from them.
    return {_PERSONS[token] for token in question.tokens if token in _PERSONS}


def _objects(question: Question) -> set[str]:
    # `I want to buy it` says what I want, `buy me one` what you shall do.
    return {"i", "me", "we", "us"} & set(question.tokens)


def _is_about_doing(asked: Question, known: Question) -> bool:
    if _is_between_us(asked) or _is_between_us(known):
        return True
    # `Call me Bob` and `call Bob for me`.
    return asked.kind == "do" and bool(_objects(asked))


def _is_between_us(question: Question) -> bool:
    return {"i", "you"} <= _persons(question)


def _doing(question: Question) -> list[str]:
    return [_PERSONS.get(t, t) for t in question.tokens if t in _PERSONS or t in question.content or t == "by"]
