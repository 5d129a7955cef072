"""Words that are talked about: what goes without saying elsewhere is then what is asked for.

`How do you say please in French` and `how do you say thanks in French` differ in nothing but filler, and `the plural of
big house` is not that of `large house`. So words that are mentioned, not used, must be the same to the letter.
"""

from __future__ import annotations

import re

from tiermesh.cache.semantic.lexicon import CHINESE_TOKEN, ENGLISH_TOKEN
from tiermesh.cache.semantic.question import Question

_TONGUES = (
    r"(?:english|french|spanish|german|chinese|mandarin|cantonese|japanese|korean|italian|russian|portuguese|arabic|latin|greek|hindi|dutch|"
    r"swedish|norwegian|danish|finnish|turkish|polish|czech|thai|vietnamese|hebrew|hungarian|indonesian|malay|ukrainian|persian)"
)
_MENTIONS_EN = re.compile(
    rf"\b(?:say|spell|spelled|spelt|pronounce|pronounced|said|translate|translated)\b.*\b(?:in|into|to) {_TONGUES}\b"
    rf"|\b(?:write|written|type|call|called|express|word|words|phrase|term)\b.*\b(?:in|into) {_TONGUES}\b|\b{_TONGUES} (?:word|words|term|phrase|translation|for)\b"
    r"|\bhow (?:do|would|can|should|does|is|are|to|did|you|i)\b.*\b(?:spell|spelled|spelt|pronounce|pronounced)\b|\bspelling of\b|\bpronunciation of\b"
    r"|\b(?:synonyms?|antonyms?|plural|past tense|etymology|rhymes?|abbreviation|definition) (?:of|for|with)\b|\bdefine\b"
    r"|\bwhat (?:does|do|did) (?:the (?:word|term|phrase|expression) )?(?!the |a |an |my |your |this |that |these |those |it )[\w'-]+ (?:mean|means|stand for)\b"
)
_SIGNS_EN = frozenset({
    "say", "spell", "spelled", "spelt", "pronounce", "pronounced", "said", "translate", "translated", "write", "written", "type", "call", "called",
    "express", "word", "words", "phrase", "term", "translation", "spelling", "pronunciation", "synonym", "synonyms", "antonym", "antonyms", "plural",
    "past", "etymology", "rhyme", "rhymes", "abbreviation", "definition", "define", "mean", "means", "stand", *_TONGUES.strip("(?:)").split("|"),
})  # fmt: skip
"""Words of which one stands in every English text that mentions a word: looked up faster than the patterns search."""
_LETTERS = re.compile("[a-z]+")
_MENTIONS_ZH = re.compile(
    r"用?[\u4e00-\u9fff]{1,3}[语文话](?:里|中)?(?:应该|要|该)?(?:怎么|如何|怎样|咋)(?:说|讲|写|念|读|表达|翻译|拼|称呼)"
    r"|(?:怎么|如何|怎样|咋)(?:用|翻译成?)[\u4e00-\u9fff]{1,3}[语文话]"
    r"|^[^,。?]{1,8}?(?:这个?(?:字|词))?(?:怎么|如何|怎样|咋)(?:读|念|拼写?|发音)"
    r"|^[^,。?]{1,6}?(?:这个?(?:字|词))?怎么写[?]?$"
    r"|的(?:[英法日韩德俄中][语文]|西班牙语|意大利语|拼音|读音|发音|近义词|同义词|反义词|部首|笔画|偏旁)(?:是什么|怎么|有哪些|单词|翻译|$|[?])"
    r"|^[^,。?的]{1,5}(?:是)?(?:什么|啥)意思"
)
_GRAMMAR_EN = frozenset({
    "a", "an", "the", "is", "are", "was", "be", "do", "does", "did", "how", "what", "which", "can", "could",
    "would", "should", "will", "i", "you", "we", "one", "people", "my", "your", "to", "in", "into", "of", "for",
    "by", "say", "said", "says", "word", "words", "term", "phrase", "expression", "way", "mean", "means", "meaning",
    "stand", "stands", "called", "call", "spell", "spelled", "spelt", "spelling", "write", "written", "define",
    "definition", "pronounce", "pronounced", "pronunciation", "translate", "translated", "translation", "'s", "short",
})  # fmt: skip
_GRAMMAR_ZH = frozenset("意思含义怎么如何样咋用的是什啥呢吗啊呀？?，,。.'\"《》“”应该要到成为")
"""What the question itself is built of."""


def refuse(asked: Question, known: Question) -> str | None:
    """Refuses questions about words that are not the same words."""
    if asked.language == "zh":
        mentions, words, grammar = _MENTIONS_ZH, CHINESE_TOKEN, _GRAMMAR_ZH
    else:
        mentions, words, grammar = _MENTIONS_EN, ENGLISH_TOKEN, _GRAMMAR_EN
    mine, theirs = asked.text.lower(), known.text.lower()
    if asked.language == "en" and _SIGNS_EN.isdisjoint(_LETTERS.findall(f"{mine} {theirs}")):
        return None
    if not (mentions.search(mine) or mentions.search(theirs)):
        return None
    odd = ({*words.findall(mine)} ^ {*words.findall(theirs)}) - grammar
    return f"asks about a word, and only one has {min(odd)}" if odd else None
