"""How, where and whether are different questions about the same thing."""

from __future__ import annotations

import re

from tiermesh.cache.semantic.question import Question

_SHOULD = frozenset({"should", "ought", "shall", "must"})
_CAN = frozenset({"can", "could", "may", "might", "able", "possible"})
_MOODS = _SHOULD | _CAN | {"will", "would"}
_ASKS = frozenset({"how", "what", "why", "when", "where", "who"})
_FEE = frozenset("费价款金租")
"""What is counted in money whether one says so or not."""
_NAMED_ZH = frozenset({"什么", "多少", "多高", "多重", "多长", "多深", "多宽", "多快", "多厚", "多远"})
"""Kinds that a noun alone asks for: `乙醇沸点`."""
_BIG_OR_OLD = (frozenset({"多大", "几岁"}), frozenset({"多大", "有多大"}))
"""`多大` asks how big or how old; what says which of them is not the other."""
_WHETHER_TO = frozenset({"该吗", "须吗"})
_PLACES = re.compile(
    r"\b(?:what|which) (city|town|country|state|province|region|continent|district|neighbou?rhood|county)\b"
)
_SETTINGS = frozenset({"change", "edit", "enable", "disable", "reset", "delete", "upload", "unsubscribe"})
"""Deeds of which how they are done and where they are done are one answer."""
_SETTINGS_ZH = re.compile(r"查|修改|更改|设置|关闭|开启|下载|退订|注销|解绑|绑定")
_ALIKE = (frozenset({"what", "do"}),)


def refuse(asked: Question, known: Question) -> str | None:
    """Refuses questions of different kinds."""
    places = [set(_PLACES.findall(question.text.lower())) for question in (asked, known)]
    if all(places) and places[0] != places[1]:
        return "one asks for another kind of place"
    if asked.kind == known.kind:
        return _modality(asked, known)
    if {asked.kind, known.kind} == {"多少", "多少钱"} and _FEE & set("".join(asked.content)):
        return None
    if {asked.kind, known.kind} == {"how", "where"} and _SETTINGS & set(asked.content) & set(known.content):
        return None
    if {asked.kind, known.kind} == {"what", "where"} and any(map(_is_capital_city, (asked, known))):
        # `What city is the capital of` is read as a place, `what is the capital of` as its name.
        return None
    if asked.language == known.language == "zh":
        kinds = {asked.kind, known.kind}
        if kinds == {"怎么", "哪里"} and set(_SETTINGS_ZH.findall(asked.text)) & set(_SETTINGS_ZH.findall(known.text)):
            return None
        if "do" in kinds and kinds & _NAMED_ZH and set(asked.content) == set(known.content):
            return None
        if kinds in _BIG_OR_OLD:
            return None
        if kinds == _WHETHER_TO and any("要不要" in question.text for question in (asked, known)):
            return None
    if any({asked.kind, known.kind} <= kinds for kinds in _ALIKE) and _is_noun_phrase(asked) and _is_noun_phrase(known):
        return None
    return f"{asked.kind} and {known.kind}"


def _is_capital_city(question: Question) -> bool:
    return "capital" in question.content and bool(_PLACES.search(question.text.lower()))


def _modality(asked: Question, known: Question) -> str | None:
    if asked.language != "en":
        return None
    mine, theirs = ({"what" if word == "which" else word for word in each.tokens} for each in (asked, known))
    # `Which artist` is who.
    asks = _ASKS - {"what"} if asked.kind == "who" else _ASKS
    if asks & mine - {asked.kind} != asks & theirs - {known.kind}:
        return "one asks a second thing"
    if asked.kind == "do" and _MOODS & mine != _MOODS & theirs:
        return "one says what will or must be"
    if asked.kind == "how":
        # How one can and how one should come to the same steps.
        return None
    for one, other in ((mine, theirs), (theirs, mine)):
        if one & _SHOULD and not other & _SHOULD and other & _CAN:
            return "one asks what should be, the other what can be"
    return None


def _is_noun_phrase(question: Question) -> bool:
    # `Capital of France` asks what it is; `reset my password` asks for a deed.
    return question.kind != "do" or question.language == "zh" or "of" in question.words
