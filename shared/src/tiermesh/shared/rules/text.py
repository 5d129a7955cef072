"""Forms of a text under which what people mean to be the same is the same.

`fold` is what patterns and keywords look at; `phrase_key` goes further and is what fixed phrases
are looked up by. Neither guesses: two texts share a form only if they differ in case, width,
spacing, quotation marks, or punctuation around and between words.
"""

from __future__ import annotations

import re
import unicodedata

import regex

# Everything here looks at whole texts of every request: `re` needs a third of the time of `regex`, and looking for a rare
# character a tenth of the time of `str.translate`. These are \p{Cf} and the selectors of variants.
_UNWRITTEN = re.compile(
    "[\u00ad\u0600-\u0605\u061c\u06dd\u070f\u0890\u0891\u08e2\u180e\u200b-\u200f\u202a-\u202e\u2060-\u2064\u2066-\u206f"
    "\ufe0e\ufe0f\ufeff\ufff9-\ufffb\U000110bd\U000110cd\U00013430-\U0001343f\U0001bca0-\U0001bca3\U0001d173-\U0001d17a"
    "\U000e0001\U000e0020-\U000e007f]+"
)
_BREAKS = re.compile(r"\n{3,}")
# White space and control characters but the line break and, last, the space: a single space is what is wanted.
_GAP = r"\x00-\x09\x0b-\x1f\x7f-\xa0\u1680\u2000-\u200a\u2028\u2029\u202f\u205f\u3000"
_GAPS = re.compile(f"[{_GAP}]")
_SPACES = re.compile(" {2,}")
_LINE_ENDS = re.compile(r" ?\n ?")
_SAME_MARKS = (
    dict.fromkeys("‘’‚‛ʼ′", "'")
    | dict.fromkeys("“”„‟«»‹›「」『』《》〈〉″", '"')
    | dict.fromkeys("‐‑‒–—―−", "-")
    | {"。": ".", "｡": ".", "、": ",", "､": ",", "･": "·", "・": "·", "\r": "\n", "\u2028": "\n", "\u2029": "\n"}
)
_MARKS = re.compile(f"[{re.escape(''.join(_SAME_MARKS))}]")

WRITTEN_TOGETHER = r"\p{Han}\p{Hiragana}\p{Katakana}"
"""Scripts written without spaces, as the inside of a character class of `regex`."""
_AROUND_TOGETHER = regex.compile(rf"(?<=[{WRITTEN_TOGETHER}]) +| +(?=[{WRITTEN_TOGETHER}])")
_BETWEEN = regex.compile(r'(?<![0-9a-z])[,.!?;:~"·…]+|[,.!?;:~"·…]+(?![0-9a-z])')
# Signs that carry meaning at the edge of a phrase (C++, C#, -5, 30%) are no decoration.
_EDGE = r"""[^\p{L}\p{N}\p{M}+\-#$%€£¥°=<>/\\@&|]+"""
_EDGES = regex.compile(rf"^{_EDGE}|{_EDGE}$")
_ASCII_DECORATION = "".join(chr(code) for code in range(128) if _EDGES.match(chr(code)))
_ROUNDS = 8


def fold(text: str) -> str:
    """Returns a text with its case, width, quotation marks and spacing made uniform.

    NFKC and case folding; full-width and ideographic punctuation becomes ASCII (`，。？` become
    `,.?`), all quotation marks `"` or `'`, all dashes `-`; invisible characters go; runs of spaces
    become one and runs of empty lines one. Line breaks stay. Folding twice changes nothing.
    """
    if text.isascii():
        return _tidy(_same_marks(text.lower()))
    for _ in range(_ROUNDS):
        # Case folding can undo NFKC and the other way round, in rare characters.
        folded = _same_marks(unicodedata.normalize("NFKC", text).casefold())
        folded = _tidy(_UNWRITTEN.sub("", folded))
        if folded == text or _is_folded(folded):
            return folded
        text = folded
    return text


def unify(text: str) -> str:
    """Returns a text with width and quotation marks made uniform, as in `fold`, but case and spacing kept."""
    return _UNWRITTEN.sub("", _same_marks(unicodedata.normalize("NFKC", text)))


def phrase_key(text: str) -> str:
    """Returns what a whole short message is looked up by; empty for one without words.

    Beyond `fold`: punctuation and emoji around the words go, sentence punctuation between them is
    a space, and no space counts next to a Chinese or Japanese character. Apostrophes, hyphens,
    signs and the punctuation inside `3.5` or `node.js` stay. Applying it twice changes nothing.
    """
    return key_of_folded(fold(text))


def key_of_folded(text: str) -> str:
    """Returns the `phrase_key` of a text that is folded already."""
    if text.isascii():
        return _SPACES.sub(" ", _BETWEEN.sub(" ", text.replace("\n", " "))).strip(_ASCII_DECORATION)
    for _ in range(_ROUNDS):
        key = _SPACES.sub(" ", _BETWEEN.sub(" ", text.replace("\n", " ")))
        key = fold(_EDGES.sub("", _AROUND_TOGETHER.sub("", key)))
        if key == text:
            break
        text = key
    return text


def _same_marks(text: str) -> str:
    text = text.replace("\r\n", "\n")
    if text.isascii():
        return text.replace("\r", "\n")
    return _MARKS.sub(lambda mark: _SAME_MARKS[mark[0]], text)


def _tidy(text: str) -> str:
    # Looking is much cheaper than replacing, and most texts have none of these.
    if _GAPS.search(text):
        text = _GAPS.sub(" ", text)
    if "  " in text:
        text = _SPACES.sub(" ", text)
    if " \n" in text or "\n " in text:
        text = _LINE_ENDS.sub("\n", text)
    if "\n\n\n" in text:
        text = _BREAKS.sub("\n\n", text)
    return text.strip()


def _is_folded(text: str) -> bool:
    """Whether folding a text, tidied already, once more would change nothing."""
    return unicodedata.is_normalized("NFKC", text) and text.casefold() == text
