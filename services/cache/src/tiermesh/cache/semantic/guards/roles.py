"""Who does what to whom: the same words in another order can ask another thing."""

from __future__ import annotations

from tiermesh.cache.semantic.question import Question

_MARKS = {
    "from": "from", "to": "to", "into": "to", "onto": "to", "than": "than", "before": "before", "after": "after",
    "against": "against", "by": "by", "about": "about", "for": "for", "with": "with", "over": "over", "under": "under", "per": "per", "between": "between",
    "从": "from", "到": "to", "至": "to", "比": "than", "被": "by", "给": "to", "把": "object", "将": "object", "向": "to",
    "往": "to", "成": "to", "跟": "with", "对": "to",
}  # fmt: skip
"""Words that say which part the word after them plays."""
_SKIPPED = frozenset({"the", "a", "an", "my", "your", "our", "their", "his", "her", "this", "these", "do", "of", "的"})
_PLACES = frozenset({"in", "on", "at", "for", "with"})
_SUBJECT_OR_OBJECT = frozenset({"谁", "什么"})
_HOW_ZH = frozenset({"怎么", "怎么办", "哪里", "什么时候", "为什么", "多久"})
_EITHER_WAY = frozenset({"howfar"})
_STATES = frozenset({"忘记", "丢", "坏"})
_DEEDS = frozenset({"how", "howlong", "howoften"})
_TWO = 2
_DOES = frozenset({"do", "does", "did"})
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
    is_named = bool({"是", "有"} & set(asked.words) & set(known.words))
    if asked.kind in _SUBJECT_OR_OBJECT and not is_named and _before_frame(asked) != _before_frame(known):
        return "one asks who does it, the other to whom"
    shared = set(asked.content) & set(known.content)
    mine = [token for token in asked.content if token in shared]
    theirs = [token for token in known.content if token in shared]
    if mine == theirs:
        return None
    place = {token: at for at, token in enumerate(theirs)}
    swapped = [
        (first, second)
        for at, first in enumerate(mine)
        for second in mine[at + 1 :]
        if place[first] > place[second] and not _marked_alike(one, other, first, second)
    ]
    if not swapped or _is_explained(asked, known, mine, theirs):
        return None
    return f"{swapped[0][0]} and {swapped[0][1]} change places"


def _is_explained(asked: Question, known: Question, mine: list[str], theirs: list[str]) -> bool:
    """Tells whether the words merely moved: all else may be another who, and another whom."""
    if not any(mine[at:] + mine[:at] == theirs for at in range(1, len(mine))):
        return _is_genitive(asked, known, mine, theirs)
    if asked.language == "zh":
        # The object goes before its verb: `怎么重置密码` and `密码怎么重置`.
        if parts(asked) or parts(known):
            return False
        if asked.kind == "怎么办" and _STATES & {mine[0], theirs[0]} and _STATES & {mine[-1], theirs[-1]}:
            # `密码忘了` and `忘记密码`: a thing forgotten, lost or broken is never who does it.
            return True
        return asked.kind in _HOW_ZH and sorted((_before_frame(asked) > 0, _before_frame(known) > 0)) == [False, True]
    return (
        _is_moved_clause(asked, known, mine, theirs)
        or _is_genitive(asked, known, mine, theirs)
        or asked.kind in _EITHER_WAY
        or (asked.kind in _DEEDS and ("be" in asked.words) != ("be" in known.words))
        or (asked.kind == "is" and ("it" in asked.words) != ("it" in known.words))
    )


def _is_moved_clause(asked: Question, known: Question, mine: list[str], theirs: list[str]) -> bool:
    # `In Python, how do I sort a list`: the part that moved begins with the same preposition in both.
    moved = theirs[0] if mine[0] != theirs[0] else theirs[-1]
    for part in {moved, mine[0]}:
        before = [_word_before(question, part) for question in (asked, known)]
        if before[0] == before[1] and before[0] in _PLACES:
            return True
    return False


def _is_genitive(asked: Question, known: Question, mine: list[str], theirs: list[str]) -> bool:
    # `France's capital` is the capital of France, but my mother's father is not my father's mother.
    if (
        asked.language != "en"
        or _DOES & {*asked.words, *known.words}
        or len([1 for a, b in zip(mine, theirs, strict=True) if a != b]) != _TWO
    ):
        return False
    if asked.kind != "how" and _DOES & {*asked.words, *known.words}:
        # There is a verb between: `what does my boss think of me`.
        return False
    at = next(at for at, pair in enumerate(zip(mine, theirs, strict=True)) if pair[0] != pair[1])
    if mine[at : at + 2] != theirs[at : at + 2][::-1]:
        return False
    links = [_between(asked, mine[at], mine[at + 1]), _between(known, theirs[at], theirs[at + 1])]
    found = [{"of", "'s"} & set(link) if link is not None else None for link in links]
    return None not in found and found[0] != found[1] and bool(found[0] or found[1])


def _word_before(question: Question, token: str) -> str:
    tokens = [t for t in question.tokens if t not in _SKIPPED]
    return tokens[tokens.index(token) - 1] if token in tokens and tokens.index(token) > 0 else ""


def _before_frame(question: Question) -> int:
    content, count = set(question.content), 0
    for token in question.tokens:
        if token == question.kind:
            break
        count += token in content
    return count


def _marked_alike(one: dict[str, str], other: dict[str, str], first: str, second: str) -> bool:
    # `to the airport from downtown` and `from downtown to the airport`: their marks carry the parts.
    return all(one.get(t) == other.get(t) for t in (first, second)) and any(one.get(t) for t in (first, second))


def _between(question: Question, first: str, second: str) -> list[str] | None:
    tokens = list(question.tokens)
    if first not in tokens or second not in tokens:
        # It was rewritten: in doubt, its place matters.
        return None
    start, end = tokens.index(first), tokens.index(second)
    return tokens[start + 1 : end] if start < end else None


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
