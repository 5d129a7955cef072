"""Names, quotations, addresses and identifiers must be the same."""

from __future__ import annotations

import re

from tiermesh.cache.semantic.frames_zh import plain_chinese
from tiermesh.cache.semantic.lexicon import CHINESE_TOKEN, chinese
from tiermesh.cache.semantic.question import Question

_QUOTED = re.compile(r'"([^"]+)"|《([^》]+)》|(?<![a-zA-Z])\'([^\']+)\'(?![a-zA-Z])')
_FILED = re.compile(
    r"\b(?:https?://\S+|[\w.+-]+@[\w-]+\.[\w.]+|[\w-]+\.[a-z]{2,5}\b|\.[a-z]{2,5}\b|[@#]\w+|/[\w./-]{2,}|(?=\w*\d)(?=\w*[A-Za-z])\w{2,})|\b[A-Za-z][\w]*(?:\+\+?|#)(?![\w+])",
    re.ASCII,
)
_NAME = re.compile(r"[A-Za-z][\w'-]*", re.ASCII)
_NAMELESS = frozenset(
    [
        "what",
        "how",
        "where",
        "when",
        "why",
        "who",
        "which",
        "can",
        "could",
        "would",
        "do",
        "does",
        "is",
        "are",
        "should",
        "the",
        "a",
        "an",
        "my",
    ]
)
_ALWAYS_CAPITAL = frozenset({"i", "im", "ive", "id", "ill", "ok", "please", "hi", "hello"})


def refuse(asked: Question, known: Question) -> str | None:
    """Refuses where a name, quotation or identifier of one does not stand in the other."""
    for mine, theirs in ((asked, known), (known, asked)):
        missing = next((name for name in sorted(entities_in(mine)) if not _stands_in(name, theirs)), None)
        if missing is not None:
            return f"only one has {missing!r}"
    return None


def entities_in(question: Question) -> frozenset[str]:
    """Returns what is named in a text, in lower case."""
    found = {quoted.strip().lower() for groups in _QUOTED.findall(question.text) for quoted in groups if quoted}
    found.update(match.lower() for match in _FILED.findall(question.text))
    if question.language == "zh":
        found.update(word.lower() for word in _NAME.findall(question.text) if len(word) > 0)
    else:
        found.update(_capitalised(question.text))
    return frozenset(found)


def _capitalised(text: str) -> set[str]:
    names: set[str] = set()
    for sentence in re.split(r"(?<=[.!?:])\s+", text):
        words = _NAME.findall(sentence)
        if sum(word[0].isupper() for word in words) > len(words) / 2 and len(words) > 3:
            # A headline or a shout: capitals say nothing.
            continue
        # The first word is written large in any case.
        names.update(
            w.lower().removesuffix("'s")
            for w in words[1:]
            if w[0].isupper()
            and w.lower().partition("'")[0] not in _ALWAYS_CAPITAL
            # `Hi, Could you`: a word that names nothing, unless it is written large throughout, as `IT` and `WHO` are.
            and not (w.istitle() and w.lower() in _NAMELESS)
        )
        if words and words[0].isupper() and len(words[0]) > 1:
            names.add(words[0].lower())
    return names


def _stands_in(name: str, question: Question) -> bool:
    text = question.text.lower()
    if question.language == "zh":
        return (
            re.sub(r"\s", "", name) in re.sub(r"\s", "", text) or name in question.tokens or _known_as(name, question)
        )
    if re.search(rf"(?<![a-z0-9]){re.escape(name)}(?:'?s)?(?![a-z0-9])", text):
        return True
    return _known_as(name, question)


def _known_as(name: str, question: Question) -> bool:
    if name.endswith(("+", "#")):
        # What C is, C++ is not.
        return False
    # `PC` and `computer`: what the lexicon makes of a name stands there.
    if question.language == "zh":
        known = chinese().rewrite(CHINESE_TOKEN.findall(plain_chinese(name)))
        return bool(known) and set(known) <= set(question.tokens)
    from tiermesh.cache.semantic.question import question_of  # noqa: PLC0415 -- would be a circle at import

    return set(question_of(name).content) <= set(question.content) and bool(question_of(name).content)
