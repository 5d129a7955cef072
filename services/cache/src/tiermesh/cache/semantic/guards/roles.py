"""Who does what to whom: the same words in another order can ask another thing."""

from __future__ import annotations

import re

from tiermesh.cache.semantic.guards import persons
from tiermesh.cache.semantic.guards.persons import PERSONS
from tiermesh.cache.semantic.order import DONE, HOLDERS, compounds, is_one_name, owned_first, plain_order
from tiermesh.cache.semantic.order_zh import HOW, MOST, WHETHER, is_fronted, without_most
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
_EITHER_WAY = frozenset({"howfar"})
_STATES = frozenset({"忘记", "丢", "坏"})
_DEEDS = frozenset({"how", "howlong", "howoften"})
_CASE_FIRST = re.compile(r"[,.;:] +(?:so )?(?:what|how|where|who|when)\b", re.IGNORECASE)
_ADVERB = re.compile(
    r"(?!family|reply|apply|supply|only|early|daily|italy|anomaly|assembly|butterfly|dragonfly|multiply)[a-z]{3,}ly"
)
_STRANDED = frozenset({"of"})
_NAMED_DEEDS = frozenset({"how", "howlong", "price"})
_TWO = 2
_JOINING = frozenset({"connect", "pair", "link", "sync", "compare"})
"""Deeds to two things alike: to connect it to, or with, another is the same."""
_DOES = frozenset({"do", "does", "did"})
_RELATIVE = (["that"], ["which"], ["that", "is"], ["which", "is"])
_ANYONE = frozenset({"i", "you", "we", "one", "people", "to"})
_COUNTED = frozenset({"howmany", "howmuch", "what"})


def refuse(asked: Question, known: Question) -> str | None:
    """Refuses where shared words change places, or parts, in a way that can change who does what."""
    one, other = parts(asked), parts(known)
    joined = _JOINING & set(asked.content) and _JOINING & set(known.content)
    paid = {"pay"} & set(asked.content) & set(known.content)
    for token in one.keys() & other.keys():
        marks = {one[token], other[token]}
        if len(marks) == _TWO and not (joined and marks == {"with", "to"}) and not (paid and marks == {"with", "by"}):
            return f"{one[token]} and {other[token]} {token}"
    return _order(asked, known, one, other) or persons.refuse(asked, known)


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
    if asked.words[-1:] != known.words[-1:] and _STRANDED & {*asked.words[-1:], *known.words[-1:]}:
        # `What is a fever a symptom of` and `what is a symptom of a fever`.
        return "one asks of what the other is"
    if asked.kind == "where" and _finds(asked) != _finds(known):
        return "one finds, the other is found"
    is_named = bool({"是", "有"} & set(asked.words) & set(known.words))
    if asked.kind == "谁" and _is_cleft(asked) != _is_cleft(known):
        # `电话是谁发明的` and `谁发明了电话`: the thing is named first, and who did it is still asked.
        plain = known if _is_cleft(asked) else asked
        if _before_frame(plain) == 0 and set(asked.content) == set(known.content):
            return None
    if (
        asked.kind in _SUBJECT_OR_OBJECT
        and not is_named
        and not _has_or_is(asked, known)
        and _before_frame(asked) != _before_frame(known)
    ):
        return "one asks who does it, the other to whom"
    shared = set(asked.content) & set(known.content)
    # `Learn it quickly` and `quickly learn it`.
    mine = [token for token in plain_order(asked) if token in shared and not _ADVERB.fullmatch(token)]
    theirs = [token for token in plain_order(known) if token in shared and not _ADVERB.fullmatch(token)]
    if "there" in {*asked.words} ^ {*known.words} and _owner(asked) | _owner(known):
        # `Do bananas have seeds` and `are there seeds in bananas`; not `are there bananas in seeds`.
        if asked.kind in _COUNTED:
            # `How many legs does it have`, `how many legs are there in it`: what is counted comes first in both.
            return None if mine == theirs else "who has it and what is had change places"
        has, there = (mine, theirs) if "have" in asked.tokens else (theirs, mine)
        owner = _owner(asked) | _owner(known)
        return None if _owned_first(has, owner) == there else "who has it and what is had change places"
    if any(alike(asked, known, mine, theirs) for alike in (_is_owned, _is_relative, _is_compound)):
        return None
    if mine == theirs:
        # `My father's mother` and `the father of my mother`.
        return "who owns and what is owned change places"
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


def _has_or_is(asked: Question, known: Question) -> bool:
    # `它有什么作用` and `它的作用是什么`.
    names = [frozenset({"有", "是"} & set(question.words)) for question in (asked, known)]
    return sorted(map(len, names)) == [1, 1] and names[0] != names[1] and asked.content == known.content


def _is_cleft(question: Question) -> bool:
    text = question.text.rstrip("?？ ")
    return ("是谁" in text or "由谁" in text) and text.endswith("的")


def _is_relative(asked: Question, known: Question, mine: list[str], theirs: list[str]) -> bool:
    """Tells whether all that moved is a deed that says which thing: `a leaking tap`, `a tap that leaks`."""
    moved = [at for at, pair in enumerate(zip(mine, theirs, strict=True)) if pair[0] != pair[1]]
    if asked.language != "en" or len(moved) != _TWO or mine[moved[0]] != theirs[moved[1]]:
        return False
    first, second = mine[moved[0]], mine[moved[1]]
    for one, other in ((asked, known), (known, asked)):
        pair = (first, second) if one is asked else (second, first)
        if f"{pair[0]}ing" in one.words and _between(one, *pair) == [] and _between(other, *pair[::-1]) in _RELATIVE:
            return True
    return False


def _is_explained(asked: Question, known: Question, mine: list[str], theirs: list[str]) -> bool:
    """Tells whether the words merely moved: all else may be another who, and another whom."""
    if asked.language == "en" and (_is_superlative(asked, known, mine, theirs) or _is_given_case(asked, known)):
        return True
    if asked.kind == "怎么" and MOST in mine and without_most(mine) == without_most(theirs):
        return True
    if asked.language == "zh" and not (parts(asked) or parts(known)) and is_fronted(asked, known, mine, theirs):
        return True
    if not any(mine[at:] + mine[:at] == theirs for at in range(1, len(mine))):
        if asked.language == "en" and _is_done_by_anyone(asked, known, mine, theirs):
            return True
        return _is_genitive(asked, known, mine, theirs)
    if asked.language == "zh":
        # The object goes before its verb: `怎么重置密码` and `密码怎么重置`.
        if parts(asked) or parts(known):
            return False
        if asked.kind == "怎么办" and _STATES & {mine[0], theirs[0]} and _STATES & {mine[-1], theirs[-1]}:
            # `密码忘了` and `忘记密码`: a thing forgotten, lost or broken is never who does it.
            return True
        is_deed = asked.kind in HOW or (asked.kind in WHETHER and len(mine) == _TWO)
        return is_deed and sorted((_before_frame(asked) > 0, _before_frame(known) > 0)) == [False, True]
    return (
        _is_done_by_anyone(asked, known, mine, theirs)
        or _is_moved_clause(asked, known, mine, theirs)
        or _is_genitive(asked, known, mine, theirs)
        or asked.kind in _EITHER_WAY
        or (asked.kind in _DEEDS and ("be" in asked.words) != ("be" in known.words))
        or (asked.kind in _DEEDS and _has_it_done(asked) != _has_it_done(known))
        or (asked.kind in _NAMED_DEEDS and _is_named_deed(asked) != _is_named_deed(known))
        or (asked.kind == "is" and ("it" in asked.words) != ("it" in known.words))
    )


def _finds(question: Question) -> bool:
    # `Where did the cat find it` looks for a place, in which somebody finds; elsewhere to find is to be there.
    return question.tokens[-1:] == ("find",) and "did" in question.words


def _is_owned(asked: Question, known: Question, mine: list[str], theirs: list[str]) -> bool:
    """Tells whether the words are in one order once all that is owned stands before its owner."""
    if asked.language != "en":
        return mine == theirs
    return any(owned_first(mine, asked, most=most) == owned_first(theirs, known, most=most) for most in (1, len(mine)))


def _is_compound(asked: Question, known: Question, mine: list[str], theirs: list[str]) -> bool:
    """Tells whether one says in one name what the other takes apart: `gift tax`, `tax on gifts`."""
    return asked.language == "en" and any(
        any(short == compound and is_one_name(name, words) for compound, words in compounds(long, apart))
        for apart, long, name, short in ((asked, mine, known, theirs), (known, theirs, asked, mine))
    )


def _is_done_by_anyone(asked: Question, known: Question, mine: list[str], theirs: list[str]) -> bool:
    """Tells whether only the deed moved: `how is cheese made` asks how one makes it."""
    if asked.kind != "how":
        return False
    for done, order, plain, deeds in ((asked, mine, known, theirs), (known, theirs, asked, mine)):
        is_passive = {"is", "are"} & set(done.words) and not {"by", *PERSONS} & set(done.words)
        if is_passive and _ANYONE & set(plain.words) and not {"is", "are"} & set(plain.words):
            shown = any(word.endswith(("ed", "en")) or word in DONE for word in done.words)
            if shown and [token for token in order if token != deeds[0]] == deeds[1:]:
                return True
    return False


def _owned_first(order: list[str], owner: set[str]) -> list[str]:
    return [*(token for token in order if token not in owner), *(token for token in order if token in owner)]


def _owner(question: Question) -> set[str]:
    tokens = question.tokens
    return set(tokens[: tokens.index("have")]) & set(question.content) if "have" in tokens else set()


def _is_given_case(asked: Question, known: Question) -> bool:
    # `What happens if I miss a payment` and `I missed a payment, what happens`.
    for one, other in ((asked, known), (known, asked)):
        if "if" in one.words and "if" not in other.words and _CASE_FIRST.search(other.text):
            return True
    return False


def _has_it_done(question: Question) -> bool:
    # `Get my license renewed` is to renew it.
    return bool({"get", "have"} & set(question.words)) and question.words[-1].endswith("ed")


def _is_named_deed(question: Question) -> bool:
    # `A battery replacement` is to replace a battery.
    return any(word.endswith(("ment", "tion", "wal", "val")) for word in question.words)


def _is_superlative(asked: Question, known: Question, mine: list[str], theirs: list[str]) -> bool:
    """Tells whether one asks which thing is most, and the other for the thing that is: `which lake is the deepest`."""
    if asked.kind not in {"what", "who"} or _MARKS.keys() & {*asked.words, *known.words}:
        return False
    return any(
        one[0] == other[1] and one[1] == other[0] and one[0].endswith("est") and one[2:] == other[2:]
        for one, other in ((mine, theirs), (theirs, mine))
        if len(one) > 1
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
        # There is a verb between: `what does my boss think of me`.
        or _DOES & {*asked.words, *known.words}
        or len([1 for a, b in zip(mine, theirs, strict=True) if a != b]) != _TWO
    ):
        return False
    at = next(at for at, pair in enumerate(zip(mine, theirs, strict=True)) if pair[0] != pair[1])
    if mine[at : at + 2] != theirs[at : at + 2][::-1] or HOLDERS & {mine[at], theirs[at]}:
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
