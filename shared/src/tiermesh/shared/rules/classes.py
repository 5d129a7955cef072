r"""Classes of characters of the `regex` library in the syntax of RE2, never narrower than they are.

`\w`, `\d` and `\s` are about all of Unicode in the one and about ASCII alone in the other, and the two know different
versions of Unicode. So whatever lies beyond ASCII is widened to whole ranges that can hold such characters.
"""

from __future__ import annotations

import string
from dataclasses import dataclass

WORD_CHARS = frozenset(string.ascii_letters + string.digits + "_")
ANY = r"(?s:.)"
_BEYOND = r"\x{80}-\x{10FFFF}"
# Where other scripts have their digits: not among Chinese characters, nor next to Latin letters.
_DIGITS = r"0-9\x{660}-\x{2FFF}\x{A000}-\x{ABFF}\x{FF00}-\x{FFEF}\x{10000}-\x{10FFFF}"
_WIDE_SPACES = r"\x{85}\x{A0}\x{1680}\x{2000}-\x{200A}\x{2028}\x{2029}\x{202F}\x{205F}\x{3000}"
_SPACES = r"\x{9}-\x{D}\x{20}"
_HAN = r"\x{2E80}-\x{303F}\x{3400}-\x{9FFF}\x{F900}-\x{FAFF}\x{16F00}-\x{16FFF}\x{1D300}-\x{1D3FF}\x{20000}-\x{3FFFF}"
_CONTROLS = {"n": "\n", "t": "\t", "r": "\r", "f": "\f", "v": "\v", "b": "\b", "a": "\a"}


@dataclass(frozen=True, slots=True)
class Class:
    """A set of characters, in the syntax of RE2."""

    text: str
    """Empty for any character at all."""
    exact: bool
    exact_in_ascii: bool
    """Whether it has the same characters of ASCII as in the `regex` library."""
    word: bool = False
    """Whether all of them are ASCII letters, digits or `_`."""


@dataclass(frozen=True, slots=True)
class ClassEscape:
    r"""An escape such as `\d` or `\p{Han}`."""

    most: str
    """All that it can stand for, as the inside of a set; empty for any character."""
    least: str
    """What it certainly stands for."""
    exact_in_ascii: bool


_WORD = ClassEscape(rf"0-9A-Za-z_{_BEYOND}", "0-9A-Za-z_", exact_in_ascii=True)
_NOT_ASCII_WORD = r"\x{0}-/:-@\[-\^`{-\x{7F}"
_ESCAPES = {
    "w": _WORD,
    "d": ClassEscape(_DIGITS, "0-9", exact_in_ascii=True),
    "s": ClassEscape(_SPACES + _WIDE_SPACES, _SPACES, exact_in_ascii=True),
    "W": ClassEscape(_NOT_ASCII_WORD + _BEYOND, _NOT_ASCII_WORD, exact_in_ascii=True),
    "D": ClassEscape(rf"\x{{0}}-/:-\x{{7F}}{_BEYOND}", r"\x{0}-/:-\x{7F}", exact_in_ascii=True),
    "S": ClassEscape(
        rf"\x{{0}}-\x{{8}}\x{{E}}-\x{{1F}}!-\x{{7F}}{_BEYOND}", r"\x{0}-\x{8}\x{E}-\x{1F}!-\x{7F}", exact_in_ascii=True
    ),
}
_PROPERTIES = {"Han": ClassEscape(_HAN, "", exact_in_ascii=True)}
_UNKNOWN = ClassEscape("", "", exact_in_ascii=False)


def escape(char: str) -> str:
    """Returns a character as RE2 reads it literally, inside a set and outside."""
    return char if char.isalnum() or char == "_" else f"\\x{{{ord(char):X}}}"


def read_class_escape(pattern: str, at: int) -> tuple[ClassEscape, int] | None:
    """Reads what follows a backslash, if it is a class; returns it and where it ends."""
    char = pattern[at]
    if char in _ESCAPES:
        return _ESCAPES[char], at + 1
    if char in "pP" and pattern[at + 1 : at + 2] == "{":
        end = pattern.index("}", at)
        found = _PROPERTIES.get(pattern[at + 2 : end], _UNKNOWN) if char == "p" else _UNKNOWN
        return found, end + 1
    return None


def widened(found: ClassEscape) -> Class:
    """Returns the set of all that an escape can stand for."""
    return Class(f"[{found.most}]" if found.most else "", exact=False, exact_in_ascii=found.exact_in_ascii)


def read_unlike(pattern: str, at: int) -> tuple[Class | None, int]:
    """Reads a set, a class or a character; returns all that it is not, and where it ends."""
    if pattern[at] == "[" and pattern[at + 1] != "^":
        return _read_set(pattern, at + 1, negated=True)
    known = read_class_escape(pattern, at + 1) if pattern[at] == "\\" else None
    if known is not None:
        found, at = known
        if not found.least:
            return None, at
        return Class(f"[^{found.least}]", exact=False, exact_in_ascii=found.exact_in_ascii), at
    char, at = (pattern[at], at + 1) if pattern[at] not in "\\([.^$" else ("", at)
    return (Class(f"[^{escape(char)}]", exact=True, exact_in_ascii=True) if char else None), at


def read_set(pattern: str, at: int) -> tuple[Class | None, int]:
    """Reads a set from behind its bracket; returns it and where it ends.

    Returns:
        None for a set that is not understood.
    """
    negated = pattern[at] == "^"
    return _read_set(pattern, at + negated, negated=negated)


def _read_set(pattern: str, at: int, *, negated: bool) -> tuple[Class | None, int]:
    parts: list[str] = []
    exact = exact_in_ascii = word = True
    anything, first = False, True
    while first or pattern[at] != "]":
        char = pattern[at]
        if char == "[" or pattern[at : at + 2] in {"--", "&&", "||", "~~"}:
            return None, at
        known = read_class_escape(pattern, at + 1) if char == "\\" else None
        if known is not None:
            found, at = known
            exact = word = False
            exact_in_ascii = exact_in_ascii and found.exact_in_ascii
            anything = anything or (not negated and not found.most)
            parts.append(found.least if negated else found.most)
            if pattern[at] == "-" and pattern[at + 1] != "]":
                return None, at
        else:
            low, at = _char(pattern, at)
            high = low
            if pattern[at] == "-" and pattern[at + 1] != "]":
                high, at = _char(pattern, at + 1)
            if not low or not high:
                return None, at
            word = word and _all_word(low, high)
            parts.append(escape(low) if low == high else f"{escape(low)}-{escape(high)}")
        first = False
    inside = "".join(parts)
    if anything or not inside:
        return Class("", exact=False, exact_in_ascii=False), at + 1
    return Class(f"[{'^' * negated}{inside}]", exact, exact_in_ascii, word and not negated), at + 1


def _char(pattern: str, at: int) -> tuple[str, int]:
    """Reads one character of a set; an empty one is not understood."""
    if pattern[at] != "\\":
        return pattern[at], at + 1
    char = pattern[at + 1]
    if char in _CONTROLS:
        return _CONTROLS[char], at + 2
    return ("" if char.isalnum() else char), at + 2


def _all_word(low: str, high: str) -> bool:
    return high < "\x80" and all(chr(code) in WORD_CHARS for code in range(ord(low), ord(high) + 1))
