"""Who is meant: I, you, or somebody else. A part of what `roles` looks at."""

from __future__ import annotations

import re

from tiermesh.cache.semantic.order import BE, DONE
from tiermesh.cache.semantic.question import Question
from tiermesh.cache.semantic.stems import stem

PERSONS = {
    "i": "i", "me": "i", "we": "i", "us": "i", "myself": "i", "my": "my", "mine": "my", "our": "my", "ours": "my",
    "you": "you", "yourself": "you", "your": "your", "yours": "your",
}  # fmt: skip
_OF_PERSONS = frozenset({"what", "who", "is", "can", "will", "where", "when", "should"})
_FEW = 2
_MOODS = frozenset({"allowed", "permitted", "supposed", "required", "obliged", "interested", "need", "even", "open"})
_DONE_TO_ME = re.compile(
    r"(?<=[\u4e00-\u9fff])(?<![给帮跟对让为和向替])(?<!告诉)(?<!(?<!邀)请)(?:我们?|你们?|您)(?:的?吗|呢|啊|呀|吧|了)*[?!。.]*$"
)
_HERE = frozenset({"this", "these", "those", "here", "这", "那"})
_THIRD = frozenset({"he", "him", "his", "she", "her", "hers", "they", "them", "their", "他", "她"})


def refuse(asked: Question, known: Question) -> str | None:
    """Refuses where another is meant, does it, or has it done to them."""
    if bool(_THIRD & set(asked.words)) != bool(_THIRD & set(known.words)):
        return "only one is about somebody else"
    if _HERE & set(asked.words) != _HERE & set(known.words):
        return "only one points at something"
    if asked.language == "zh":
        # Who is meant is left out as often as not, but not where it is done to me.
        if bool(_DONE_TO_ME.search(asked.text)) != bool(_DONE_TO_ME.search(known.text)):
            return "one does it, the other has it done to them"
        return None
    if _suffered(asked) ^ _suffered(known):
        return "one does it, the other has it done to them"
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


def _suffered(question: Question) -> set[str]:
    """Returns what is done to me or you: `can I be fired`, `am I charged`."""
    words = question.words
    return {
        stem(done)
        for one, other, done in zip(words, words[1:], words[2:], strict=False)
        if (one in PERSONS) != (other in PERSONS)
        and {one, other} & BE
        and (done.endswith(("ed", "en")) or done in DONE)
        and done not in _MOODS
    }


def _persons(question: Question) -> set[str]:
    # Tokens, not words: `can you tell me` is gone from them.
    return {PERSONS[token] for token in question.tokens if token in PERSONS}


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
    return [PERSONS.get(t, t) for t in question.tokens if t in PERSONS or t in question.content or t == "by"]
