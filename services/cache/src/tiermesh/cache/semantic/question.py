"""A question taken apart, so that guards can compare two of them.

Nothing here decides. Words are rewritten by the lexicon of their language, so that wordings that
mean the same become the same tokens; what is left is content, and a kind of question.
"""

from __future__ import annotations

import re
import unicodedata
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise

from tiermesh.cache.semantic.frames import plain_question
from tiermesh.cache.semantic.frames_zh import narrow, plain_chinese, simplified
from tiermesh.cache.semantic.lexicon import CHINESE_TOKEN, ENGLISH_TOKEN, Lexicon, chinese, english
from tiermesh.cache.semantic.numerals import numerals_in
from tiermesh.cache.semantic.preamble import without_preamble
from tiermesh.cache.semantic.stems import stem

_QUOTES = str.maketrans({"’": "'", "‘": "'", "“": '"', "”": '"', "「": '"', "」": '"', "『": '"', "』": '"'})
_HAN = re.compile(r"[\u3007\u3400-\u4dbf\u4e00-\u9fff]")
_LETTER = re.compile(r"[^\W\d_]")
_SHORT = (
    (re.compile(r"\bcan(?:'t|not)\b"), "can not"),
    (re.compile(r"\bwon't\b"), "will not"),
    (re.compile(r"\bain't\b"), "is not"),
    (re.compile(r"n't\b"), " not"),
    (re.compile(r"'re\b"), " are"),
    (re.compile(r"'m\b"), " am"),
    (re.compile(r"'ve\b"), " have"),
    (re.compile(r"'ll\b"), " will"),
    (re.compile(r"'d\b"), " would"),
    (re.compile(r"\b(what|where|who|how|when|why|it|that|there|here|he|she)'s\b"), r"\1 is"),
    (re.compile(r"\b(what|where|who|how|when|why)s\b"), r"\1 is"),
    (re.compile(r"\blet's\b"), "let us"),
    (re.compile(r"\bwanna\b"), "want to"),
    (re.compile(r"\bgonna\b"), "going to"),
    (re.compile(r"\b(?:e-mail)\b"), "email"),
    (re.compile(r"\bk8s\b"), "kubernetes"),
)


@dataclass(frozen=True, slots=True)
class Question:
    """A text as guards see it."""

    text: str
    """The text itself, composed to NFC; quotation marks, widths and Chinese characters each in their usual form."""
    language: str
    """`en`, `zh`, or `other` for what no guard can judge."""
    words: tuple[str, ...]
    """Tokens as they stand: lower-case words or single characters."""
    tokens: tuple[str, ...]
    """Tokens after rewriting, in their order."""
    kind: str
    """Kind of question, such as `how`, `when` or `can`."""
    content: tuple[str, ...]
    """Tokens that carry content, in their order."""
    noun: str = ""
    """Noun that only says what the answer is, such as `city` in `which city`; not in the content."""

    @property
    def signature(self) -> str:
        """Equal for questions that differ in filler, known synonyms and order alone."""
        return f"{self.language} {self.kind} {' '.join(sorted(set(self.content)))}"


@lru_cache(maxsize=4096)
def question_of(text: str) -> Question:
    """Takes a text apart. Pure; the last few thousand results are kept."""
    text = narrow(unicodedata.normalize("NFC", text).translate(_QUOTES)).strip()
    language = _language(text)
    if language == "zh":
        text = simplified(text)
    plain = unicodedata.normalize("NFKC", text).casefold().translate(_QUOTES)
    if language == "zh":
        return _chinese(text, plain)
    return _english(text, plain, language)


def _language(text: str) -> str:
    letters = _LETTER.findall(text)
    han = sum(1 for letter in letters if _HAN.match(letter))
    latin = sum(1 for letter in letters if letter.isascii())
    if not letters or han + latin < len(letters):
        return "other"
    return "zh" if han else "en"


def _english(text: str, plain: str, language: str) -> Question:
    for pattern, whole in _SHORT:
        plain = pattern.sub(whole, plain)
    plain = plain_question(without_preamble(plain))
    words = ENGLISH_TOKEN.findall(plain)
    lexicon = english()
    tokens = _settle(words, lexicon)
    kind = _english_kind(tokens, text)
    numbers = numerals_in(words)
    dropped = lexicon.function | lexicon.frames | _GENITIVE
    content = [token for token in tokens if token not in dropped]
    noun = _noun_after_which(tokens) if kind in {"what", "who"} else ""
    content = [token for token in content if token != noun]
    if kind in _MODAL_WORDS:
        content = [token for token in content if token not in _MODAL_WORDS[kind]]
    content = [*content, *numbers.unseen(content)]
    return Question(text, language, tuple(words), tuple(tokens), kind, _once(content), "" if noun in _WHO else noun)


def _settle(words: list[str], lexicon: Lexicon) -> list[str]:
    # Phrases are looked for in the words as they stand, then in their stems: `photos` is `photo` is `picture`. No phrase
    # is in capitals, so that a deed named like a thing is left alone.
    first = lexicon.rewrite(_deeds_apart(words))
    settled = lexicon.rewrite(
        word if word in lexicon.frames or word in lexicon.function else stem(word) for word in first
    )
    return [word.lower() for word in settled]


def _deeds_apart(words: list[str]) -> list[str]:
    """Returns words with deeds in capitals where the lexicon knows a thing of that name: to file is not to document."""
    return [
        word.upper()
        if word in _DEEDS_AND_THINGS and at and words[at - 1] in _DOERS
        else _DOING[word].upper()
        if word in _DOING
        else word
        for at, word in enumerate(words)
    ]


_DEEDS_AND_THINGS = frozenset(
    {"file", "document", "screen", "display", "monitor", "store", "shop", "program", "issue", "image"}
)
_DOING = {
    "filing": "file", "documenting": "document", "screening": "screen", "displaying": "display", "monitoring": "monitor",
    "storing": "store", "shopping": "shop", "programming": "program", "issuing": "issue", "imaging": "image",
}  # fmt: skip
_DOERS = frozenset({"i", "we", "you", "they", "people", "one", "to", "not", "should", "must", "will"})


_GENITIVE = frozenset({"'s"})
_MODAL_WORDS = {
    "can": frozenset({"able", "possible", "allow", "ok"}),
    "must": frozenset({"must", "need", "require"}),
    "howlong": frozenset({"take", "last"}),
    "howfast": frozenset({"travel", "go"}),
    "howheavy": frozenset({"weigh", "price"}),
    "howfar": frozenset({"away"}),
    "where": frozenset({"find", "locate", "situate"}),
    "when": frozenset({"time", "date", "day"}),
    "why": frozenset({"happen"}),
    "price": frozenset({"price"}),
}
"""Words that a kind of question says already."""
_AFTER_WH = frozenset({"city", "building", "file", "amount", "person", "year", "ocean"})
"""Nouns after `which` that only say what the answer is."""
_WHO = frozenset({"artist", "author", "scientist", "singer", "painter", "actor", "writer", "person", "president"})
_HOW_KINDS = frozenset(
    {"howmany", "howlong", "howoften", "howfar", "howold", "howtall", "howbig", "howheavy", "howfast"}
)
_WH = {
    "how": "how", "why": "why", "when": "when", "where": "where", "what": "what", "which": "what",
    "who": "who", "whom": "who", "whose": "who",
}  # fmt: skip
_MODALS = {
    **dict.fromkeys(("can", "could", "may", "might", "able", "possible", "allow"), "can"),
    **dict.fromkeys(("should", "shall", "ought", "better"), "should"),
    **dict.fromkeys(("must", "need", "require"), "must"),
    **dict.fromkeys(("will", "would"), "will"),
    **dict.fromkeys(("do", "does", "did", "have", "has", "had", "is", "are", "am", "was", "were"), "is"),
}


def _english_kind(tokens: list[str], text: str) -> str:
    if "weigh" in tokens and {"how", "howmuch"} & set(tokens):
        return "howheavy"
    if "price" in tokens and any(t in tokens for t in ("what", "howmuch", "how")):
        return "price"
    if tokens and tokens[0] in _MODALS:
        # `Is there a meaning of life` asks whether, whatever else stands in it.
        return _modal(tokens)
    for at, word in enumerate(tokens):
        following = tokens[at + 1] if at + 1 < len(tokens) else ""
        if word in _HOW_KINDS:
            return word
        if word == "howmuch":
            return "price" if "price" in tokens else "howheavy" if "weigh" in tokens else word
        if word == "how" and following in {"much", "many"}:
            return "howmuch"
        if word in {"what", "which"} and following in _WHO:
            return "who"
        if word in _WH:
            return _WH[word]
    if text.rstrip().endswith("?"):
        return "what"
    # `I wonder if` asks whether, and asks for no deed.
    return "is" if {"if", "whether"} & set(tokens) else "do"


def _noun_after_which(tokens: list[str]) -> str:
    for wh, noun in pairwise(tokens):
        if wh in {"what", "which"} and noun in _AFTER_WH | _WHO and tokens.count(noun) == 1:
            return noun
    return ""


def _modal(tokens: list[str]) -> str:
    # `Is it possible to change it` and `is changing it possible`.
    head = (*tokens[:6], tokens[-1])
    for word in ("must", "need", "require"):
        if word in head:
            return "must"
    for word in ("able", "possible", "allow"):
        if word in head:
            return "can"
    return _MODALS[tokens[0]]


_KINDS_ZH = (
    "怎么办", "怎么", "为什么", "什么时候", "多久", "多少钱", "哪里", "谁", "多少", "几岁", "有多大", "多大", "多高", "多远", "多长", "多重", "多深", "多宽", "多快", "多厚",
    "什么",
    "该吗", "须吗", "能吗", "有吗", "了吗", "吗",
)  # fmt: skip


_SHOULD_ANYWAY = frozenset(
    {"怎么", "怎么办", "什么", "什么时候", "多久", "多少", "多少钱", "多大", "几岁", "有多大", "哪里"}
)
"""Kinds that ask for what one should do, whether they say so or not."""
_EITHER_ZH = re.compile(
    r"(?<![能可是要会好对行该应需用])(?!能|可|是|要|会|好|对|行|该|应|需|用|差|了|算)([\u4e00-\u9fff])不\1"
)


def _chinese(text: str, plain: str) -> Question:
    plain = plain_chinese(plain)
    words = CHINESE_TOKEN.findall(plain)
    lexicon = chinese()
    # `Is it far` is asked as `far not far`: that asks whether, and denies nothing.
    whether = _EITHER_ZH.sub(r"\1吗", plain)
    tokens = lexicon.rewrite(CHINESE_TOKEN.findall(whether))
    kind = next((kind for kind in _KINDS_ZH if kind in tokens), "what" if text.endswith(("?", "？")) else "do")
    numbers = numerals_in(words)
    dropped = lexicon.function | lexicon.frames
    content = [token for token in tokens if token not in dropped]
    # Frames that are no kind of question in this one stand for a statement: `有` in `我有一张卡怎么用`.
    said = {"能吗", "有吗"} if kind in _SHOULD_ANYWAY else {"能吗", "有吗", "须吗", "该吗"}
    kept = [token for token in tokens if token in said and token != kind]
    return Question(text, "zh", tuple(words), tuple(tokens), kind, _once([*content, *kept, *numbers.unseen(content)]))


def _once(tokens: list[str]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(tokens))
