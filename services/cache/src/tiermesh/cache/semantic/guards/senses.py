"""Words that stand for the same in most questions, and not in these.

`Nation` is `country` to somebody who travels, and not to somebody who asks what a nation is; to `remove` a photo is to
`erase` it, and to remove a hard drive is not. What the lexicon puts together is therefore compared to the letter where a
word is all that a question is about.
"""

from __future__ import annotations

import re

from tiermesh.cache.semantic.lexicon import english
from tiermesh.cache.semantic.question import Question
from tiermesh.cache.semantic.stems import stem

_BE = frozenset({"is", "are", "was", "were"})
_DETERMINERS = frozenset({"a", "an", "the"})
_MOST_WORDS = 2
"""Words of a name that is asked about, beside its article: with more, they say by themselves what is meant."""
_SHORT = 4
"""Letters of what may be an abbreviation: that is the same word."""
_TELLING = frozenset(
    {"in", "on", "at", "for", "by", "with", "as", "from", "need", "want", "wish", "try", "require", "like", "have"}
)
"""Words without which `what is it` is another question: `what is in it`, `what does it need`."""
_MEANT = frozenset(
    {
        "life",
        "love",
        "christmas",
        "easter",
        "existence",
        "art",
        "work",
        "family",
        "home",
        "friendship",
        "death",
        "suffering",
    }
)
"""What has a meaning that is not the meaning of its word."""
_DEEDS = ("remove", "delete", "erase", "wipe", "get rid of", "dispose of", "throw away", "throw out", "discard")
_RID = frozenset({"delete", "wipe", "dispose"})
_DEVICE = (
    r"(?:(?:hard |usb |flash |external |internal |ssd |sim |sd |memory |smart |mobile )*(?:drives?|disks?|discs?|phones?|iphones?|ipads?|computers?|laptops?|"
    r"pcs?|macs?|macbooks?|tablets?|usbs?|cards?|sticks?|batter(?:y|ies)|watch(?:es)?|tvs?|consoles?|ssds?|cameras?|printers?|routers?))"
)
_DONE_TO_A_DEVICE = re.compile(
    rf"\b(?P<deed>{'|'.join(_DEEDS)}) (?:(?:the|a|an|my|your|our|this|that|old|broken|used|dead|new) )*{_DEVICE}"
    r"(?=$|[?.,!]| (?:in|on|at|from|with|without|before|after|when|if|to|for|using|safely|completely|permanently|properly)\b)"
)
_PHONES = {
    "phone": "phone",
    "telephone": "phone",
    "mobile": "mobile",
    "cell": "mobile",
    "cellphone": "mobile",
    "smartphone": "smart",
}
_OF_HISTORY = frozenset({"who", "when", "howold"})
_HISTORY = frozenset({"first", "invent", "history", "oldest"})
_APART = (
    (
        "choose",
        frozenset({"pick"}),
        frozenset({
            "lock", "nose", "pocket", "flower", "mushroom", "fruit", "berry", "strawberry", "blueberry", "raspberry", "blackberry", "cherry", "apple",
            "peach", "pear", "plum", "orange", "lemon", "grape", "tomato", "pepper", "corn", "bean", "olive", "cotton", "herb", "basil", "lavender",
            "rose", "tulip", "scab", "crab",
        }),
    ),
    (
        "app",
        frozenset({"app"}),
        frozenset({
            "submit", "fill", "complete", "reject", "approve", "deny", "job", "visa", "passport", "loan", "grant", "college", "deadline", "status",
            "withdraw", "review", "write", "permit", "school", "fee", "price",
        }),
    ),
)  # fmt: skip
"""What the lexicon makes of some words, those of them that are apart, and words beside which they are."""
_FILLER_ZH = re.compile('到底|究竟|其实|具体|所谓的?|[“”"《》]')
_NAMED_ZH = re.compile(
    r"^(?:什么是|啥是|何为|何谓)(?P<one>[^?，,。的]{1,8}?)[?？。\s]*$|^(?P<other>[^?，,。的]{1,8}?)(?:是什么|是啥|指什么)(?:意思|东西)?[?？。\s]*$"
)
_FOUND_ZH = re.compile(
    "(?P<deed>找回|恢复|还原)(?:我的|丢失的)?(?:手机|电脑|平板|手表|耳机|钱包|笔记本)(?![里上中的通联密账号数照文])"
)
"""A device that is found again is not one that is set back."""
_TOLD_ZH = re.compile("(?:设置?|添加|新建|创建|定|加)(?:一?个)?提醒")


def refuse(asked: Question, known: Question) -> str | None:
    """Refuses where one word stands for another that it does not stand for in this question."""
    if asked.words == known.words:
        return None
    if asked.language == "zh":
        return _refuse_zh(asked, known)
    content = {*asked.content, *known.content}
    for word, apart, beside in _APART:
        if word in content and not beside.isdisjoint(content):
            said = [any(stem(word) in apart for word in question.words) for question in (asked, known)]
            if said[0] != said[1]:
                return f"{min(apart)} is not {word} here"
    if not _RID.isdisjoint(content):
        deeds = [
            {found["deed"] for found in _DONE_TO_A_DEVICE.finditer(question.text.lower())}
            for question in (asked, known)
        ]
        if all(deeds) and deeds[0] != deeds[1]:
            return "a device is got rid of in one, emptied in the other"
    if "phone" in content and (asked.kind in _OF_HISTORY or not _HISTORY.isdisjoint(content)):
        phones = [{_PHONES[word] for word in question.words if word in _PHONES} for question in (asked, known)]
        if phones[0] - {"phone"} != phones[1] - {"phone"}:
            return "they ask about the past of different things"
    return _of_a_name(asked, known) or _of_a_name(known, asked)


def _refuse_zh(asked: Question, known: Question) -> str | None:
    if asked.kind == known.kind == "什么":
        mine, theirs = _named_zh(asked), _named_zh(known)
        if mine and theirs and mine != theirs:
            return f"one asks what {mine} is, the other what {theirs} is"
    if "恢复" in asked.tokens:
        found = [{each["deed"] == "找回" for each in _FOUND_ZH.finditer(question.text)} for question in (asked, known)]
        if all(found) and found[0] != found[1]:
            return "one finds a device again, the other sets it back"
    if "通知" in asked.tokens:
        told = [bool(_TOLD_ZH.search(question.text)) for question in (asked, known)]
        if told[0] != told[1]:
            return "one wants to be reminded, the other to be notified"
    return None


def _named_zh(question: Question) -> str:
    found = _NAMED_ZH.match(_FILLER_ZH.sub("", "".join(question.words)))
    name = found["one"] or found["other"] if found else ""
    # What an abbreviation stands for is the same word.
    return "" if any(letter.isascii() for letter in name) else name


def _of_a_name(one: Question, other: Question) -> str | None:
    """Returns why the other does not ask what a thing is, where one does."""
    name = _name(one)
    if not name:
        return None
    surface = _surface(other)
    missing = next((word for word in name if not _surface_of(word) <= surface), None)
    if missing is not None:
        return f"one asks what {missing} is"
    if "meaning" in other.words and _MEANT & set(name):
        return "one asks for a meaning, the other for a thing"
    telling = _TELLING & {stem(word) for word in other.words}
    if telling and not _name(other):
        return f"only one has {min(telling)}"
    return None


def _name(question: Question) -> list[str]:
    """Returns the words of a thing of which is asked what it is, and nothing more; else nothing."""
    words = question.words
    if len(words) < 3 or words[0] not in {"what", "who"} or words[1] not in _BE:
        return []
    name = [word for word in words[2:] if word not in _DETERMINERS]
    function = english().function
    if not 0 < len(name) <= _MOST_WORDS or any(word in function or word == "'s" for word in name):
        return []
    return name


def _surface(question: Question) -> set[str]:
    return set().union(*(_surface_of(word) for word in question.words))


def _surface_of(word: str) -> set[str]:
    # What an abbreviation stands for is the same word.
    return (
        set(english().rewrite([word])) or {word} if len(word) <= _SHORT and word not in _DETERMINERS else {stem(word)}
    )
