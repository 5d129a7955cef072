"""A question and its opposite look alike to an embedder."""

from __future__ import annotations

import re
from collections.abc import Mapping

from tiermesh.cache.semantic.lexicon import chinese, english
from tiermesh.cache.semantic.question import Question

_NOT_EN = frozenset({
    "not", "no", "never", "none", "nobody", "nothing", "nowhere", "neither", "nor", "without", "unless", "except",
    "hardly", "barely", "rarely", "seldom", "lack", "lacking", "cannot", "non", "anti", "refuse", "fail", "failed",
})  # fmt: skip
_PREFIXED = re.compile(r"^(?:un|in|im|il|ir|dis|non|mis|de)(?=[a-z]{4})")
_ASKING_ZH = re.compile(
    "能不能|可不可以|是不是|有没有|要不要|会不会|好不好|对不对|行不行|该不该|应不应该|需不需要|用不用|是否|能否|可否|"
    "了没有?[?？]?$|没有?[?？]$|([\u4e00-\u9fff])不\\1|不错|不好意思|不同|不过|差不多|不少|不仅|不但|无线|无理由|无论|特别|分别|区别|级别|"
    "类别|性别|识别|别人|告别|别墅|非常|除非|未来|没问题|想不起来?|不记得|记不得|记不起来?|睡不着|忘记|找不到了|不见了|无法入睡|不舒服|不锈钢|不动产|不成功"
)
_NOT_ZH = re.compile("不|没|无|未|别|勿|非|禁止|拒绝|除了|除去|停止|失败")


def refuse(asked: Question, known: Question) -> str | None:
    """Refuses where one denies and the other does not, and where one has the opposite of the other's word."""
    if negations(asked) != negations(known):
        return "one of them denies"
    if _denied(asked) != _denied(known):
        return "they deny different things"
    lexicon = english() if asked.language == "en" else chinese()
    return _opposed(set(asked.tokens), set(known.tokens), lexicon.opposites) or _prefixed(asked, known)


def negations(question: Question) -> int:
    """Counts the words that deny."""
    english = sum(word in _NOT_EN for word in question.words)
    if question.language != "zh":
        return english
    return english + len(_NOT_ZH.findall(_asserted(question)))


def _asserted(question: Question) -> str:
    # Words, not the text: `登录失败` and `登录不了` are one by then.
    text = "".join(question.words) + ("?" if question.text.endswith("?") else "")
    return _ASKING_ZH.sub("", text)


def _denied(question: Question) -> list[str]:
    """Returns what stands after each denial, and before it where the question asks whether."""
    words = question.words
    if question.language == "zh":
        text = _asserted(question)
        return sorted(text[found.end() : found.end() + 2].strip("的了吗？?") for found in _NOT_ZH.finditer(text))
    if question.kind not in {"can", "should", "must", "will", "is"}:
        return []
    # `Can't I eat it` and `can I not eat it` differ in where the denial stands.
    return sorted(words[at - 1] for at, word in enumerate(words) if word in _NOT_EN and at)


def _opposed(asked: set[str], known: set[str], opposites: Mapping[str, frozenset[str]]) -> str | None:
    only_asked, only_known = asked - known, known - asked
    for word in only_asked:
        against = opposites.get(word, frozenset()) & only_known
        if against:
            return f"{word} is the opposite of {min(against)}"
    return None


def _prefixed(asked: Question, known: Question) -> str | None:
    if asked.language != "en":
        return None
    one, other = set(asked.content), set(known.content)
    for mine, theirs in ((one - other, other - one), (other - one, one - other)):
        for word in mine:
            bare = _PREFIXED.sub("", word)
            if bare != word and bare in theirs:
                return f"{word} is the opposite of {bare}"
    return None
