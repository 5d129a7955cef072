"""The same deed in another form is another thing: bored and boring, stop to smoke and stop smoking.

Stems are equal there, so that only the form says what is asked.
"""

from __future__ import annotations

import re
from itertools import pairwise
from typing import NamedTuple

from tiermesh.cache.semantic.guards.persons import PERSONS
from tiermesh.cache.semantic.order import BE, DONE
from tiermesh.cache.semantic.question import Question
from tiermesh.cache.semantic.stems import stem

_WITH_EITHER = frozenset({"stop", "quit", "remember", "forget", "regret", "try", "mean"})
"""Deeds after which `to do` and `doing` say two things."""
_LINKING = BE | {
    "become",
    "becoming",
    "get",
    "getting",
    "look",
    "looking",
    "seem",
    "seems",
    "feel",
    "feeling",
    "so",
    "very",
    "too",
    "more",
    "be",
}
_GOING = ("ing", "ed")
_WANTED = frozenset(
    form
    for forms in (
        "need needs needed needing require requires required want wants wanted wish wishes wished",
        "try tries tried trying own owns owned owning",
    )
    for form in forms.split()
)
_NEEDED_BY = {("required", "by"), ("needed", "by"), ("wanted", "by"), ("owned", "by")}
_DOES = frozenset({"do", "does", "did"})
_MAY = frozenset({"can", "could", "should", "will", "would", "must", "may"})
_SUBJECTS = PERSONS.keys() | {"a", "an", "the", "he", "she", "they", "it", "people"}
_WANTING = frozenset({"need", "want", "wish", "try", "own"})
_ANYONE = frozenset({"i", "we", "you", "to", "one", "people", "someone", "really", "not", "just", "also", "still", *BE})
_OF_ANOTHER = frozenset({"why", "who"})
"""Kinds in which what I want is what is asked about, and not how I ask."""
_SOON = re.compile(
    r"(?<![需不想只须])(?:快(?![递乐速餐件艇车捷讯])要?|要|即将|将要?)(?![求不])[^,，。?？么]{1,6}了(?!吗)"
)
"""What is about to be, and is not yet: `要过期了`."""


class _Small(NamedTuple):
    word: str
    pattern: re.Pattern[str]
    """Where the character is that word, and no part of another."""

    def said(self, text: str) -> bool:
        return self.pattern.search(text) is not None


_EITHER_ZH = (
    (
        _Small("会", re.compile(r"(?<![社机学协体约聚宴工晚年大开拜一都不])会(?![员议计谈场话所不])")),
        _Small("要", re.compile(r"(?<![需不想只主重必首摘纲概还须])要(?![求点素不是])")),
    ),
    (
        _Small("去", re.compile(r"(?<![过失回出进上下])去(?![除掉世年污皮味油黑角渍哪])")),
        _Small("来", re.compile(r"(?<![原本从起出进上下回过未])来(?![源自说电回年不得])")),
    ),
)
"""Small words of which one goes without saying, and not where the other question has the other."""


def refuse(asked: Question, known: Question) -> str | None:
    """Refuses where a deed that both name has a form in one that says another thing than its form in the other."""
    if asked.words == known.words:
        return None
    if asked.language != "en":
        return _small_zh(asked, known)
    odd = {*asked.words} ^ {*known.words}
    if any(word.endswith("ing") for word in odd):
        for one, other in ((asked, known), (known, asked)):
            if (deed := next(iter(_to_do(one) & _doing(other)), None)) is not None:
                return f"one is to {deed[1]}, the other is about having done it"
            states = _states(one, "ing") & _states(other, "ed") - _states(one, "ed")
            if states:
                return f"{min(states)} is what somebody does in one, and what is done to him in the other"
    is_wanted = any(word in _WANTED for word in asked.words) and any(word in _WANTED for word in known.words)
    if (is_wanted or _is_of_us(asked)) and (
        _needed_by(asked) != _needed_by(known) or {_asks_whom(asked), _asks_whom(known)} == {True, False}
    ):
        return "one asks who does it, the other to whom"
    if not odd.isdisjoint(_WANTED) and _wanted(asked) != _wanted(known):
        return "only one is about what somebody wants or needs"
    return None


def _small_zh(asked: Question, known: Question) -> str | None:
    mine, theirs = asked.text, known.text
    if ("了" in mine or "了" in theirs) and bool(_SOON.search(mine)) != bool(_SOON.search(theirs)):
        return "one is about to happen"
    for first, second in _EITHER_ZH:
        for one, other in ((mine, theirs), (theirs, mine)):
            if first.word not in one or second.word not in other:
                continue
            if first.said(one) and second.said(other) and not (second.said(one) or first.said(other)):
                return f"one says {first.word}, the other {second.word}"
    return None


def _to_do(question: Question) -> set[tuple[str, str]]:
    words = question.words
    return {
        (stem(one), stem(deed))
        for one, to, deed in zip(words, words[1:], words[2:], strict=False)
        if to == "to" and stem(one) in _WITH_EITHER
    }


def _doing(question: Question) -> set[tuple[str, str]]:
    return {
        (stem(one), stem(deed))
        for one, deed in pairwise(question.words)
        if deed.endswith("ing") and stem(one) in _WITH_EITHER
    }


def _states(question: Question, ending: str) -> set[str]:
    """Returns stems of what somebody or something is, by the ending of their form: `is always annoying`."""
    words = question.words
    if not _LINKING & set(words):
        return set()
    return {
        stem(word)
        for at, word in enumerate(words)
        if at
        and (word.endswith(ending) or (ending == "ed" and (word in DONE or word.endswith("en"))))
        and stem(word) != word
    }


def _needed_by(question: Question) -> bool:
    return any(pair in _NEEDED_BY for pair in pairwise(question.words))


def _asks_whom(question: Question) -> bool | None:
    """Tells whether a question asks to whom it is done, not who does it: `what does it need`, `what needs it`."""
    _, after, subject = (*question.words, "", "", "")[:3]
    if after in _DOES or (after in _MAY and subject in _SUBJECTS):
        return True
    return False if after in _WANTED or question.kind == "who" else None


def _is_of_us(question: Question) -> bool:
    # `Who do you work for` and `who works for you`.
    return question.kind == "who" and not PERSONS.keys().isdisjoint(question.words)


def _wanted(question: Question) -> set[str]:
    """Returns what somebody else than the one who asks wants, needs, tries or owns to do."""
    words = question.words
    if question.kind in {"must", "do"}:
        return set()
    return {
        stem(word)
        for at, (before, word) in enumerate(pairwise(words), start=1)
        # `It needs to be changed` says no more than that one should.
        if words[at + 1 : at + 3] != ("to", "be")
        and stem(word) in _WANTING
        and (before not in _ANYONE or question.kind in _OF_ANOTHER)
        and before not in BE
        and before not in {"my", "your", "our", "the", "a"}
    }
