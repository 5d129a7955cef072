"""Short texts that a pattern matches: evidence for what two patterns have in common, or that one can never match.

A pattern is expanded into the texts it describes, up to a limit. Whatever the expansion does not understand (assertions
with a width, back references) makes it give up, and every text is tried on the pattern before it counts, so what is
returned is always true; only what is left out may be missing. `complete` says that nothing is left out.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import islice, product

import regex
from tiermesh.shared.rules.patterns import FLAGS
from tiermesh.shared.rules.text import fold

MOST = 400
"""Texts that a pattern is expanded into at most."""
_CLASSES = {"d": "1", "w": "x", "s": " ", "D": "x", "W": "-", "S": "x", "h": " ", "v": "\n"}
_SCRIPTS = {
    "Han": "中",
    "Hiragana": "の",
    "Katakana": "ン",
    "Hangul": "가",
    "Cyrillic": "я",
    "L": "x",
    "N": "1",
    "P": ".",
}
_AROUND = ("", " ", "x", "1", "中", "\n", ".")
_RANGE = 4
_LIMIT_S = 0.05

Expansion = tuple[tuple[str, ...], bool]
"""Texts, and whether they are all there are."""


class _NotUnderstood(Exception):
    """The pattern has a construct that is not expanded."""


@dataclass(frozen=True, slots=True)
class Witnesses:
    """Texts that a pattern matches."""

    texts: tuple[str, ...]
    """In folded form; each of them matches."""
    unfolded: tuple[str, ...]
    """Matched before folding but not after: texts that the pattern describes and will never be shown."""
    impossible: tuple[str, ...]
    """Described, but ruled out by the pattern's own assertions, such as `\\b` inside a word."""
    complete: bool
    """Whether every match of the pattern is one of these texts, whatever stands around it."""


@lru_cache(maxsize=4096)
def witnesses(pattern: str) -> Witnesses:
    """Returns texts that a pattern matches, none where it is not understood."""
    try:
        expanded, complete = _Expander(pattern).whole()
    except (_NotUnderstood, IndexError, ValueError):
        return Witnesses((), (), (), complete=False)
    compiled = _compiled(pattern)
    texts, unfolded, impossible = dict[str, None](), [], []
    for text in expanded:
        shown = next((s for around in _contexts(text) if _matches(compiled, s := fold(around))), None)
        if shown is not None:
            texts[fold(text) if _matches(compiled, fold(text)) else shown] = None
        elif any(_matches(compiled, around) for around in _contexts(text)):
            unfolded.append(text)
        elif complete:
            impossible.append(text)
    return Witnesses(tuple(texts), tuple(unfolded), tuple(impossible), complete and not impossible)


def covered(pattern: str, by: Sequence[str]) -> bool:
    """Whether every text that a pattern matches is matched by one of others, as far as can be said for sure."""
    if pattern in by:
        return True
    found = witnesses(pattern)
    if not (by and found.complete and found.texts):
        return False
    own, others = _compiled(pattern), [_compiled(other) for other in by]
    return all(
        any(_matches(other, text) for other in others)
        for witness in found.texts
        for around in _contexts(witness)
        if _matches(own, text := fold(around))
    )


def matches(pattern: str, text: str) -> bool:
    """Whether a pattern occurs in a folded text; False where that takes too long to say."""
    return _matches(_compiled(pattern), text)


@lru_cache(maxsize=4096)
def _compiled(pattern: str) -> regex.Pattern[str]:
    return regex.compile(pattern, FLAGS)


def _matches(compiled: regex.Pattern[str], text: str) -> bool:
    try:
        return compiled.search(text, timeout=_LIMIT_S) is not None
    except TimeoutError:
        return False


def _contexts(text: str) -> Iterator[str]:
    for before, after in product(_AROUND, repeat=2):
        yield f"{before}{text}{after}"


class _Expander:
    """Reads a pattern from left to right, as `regex` does, and keeps every text it may stand for."""

    def __init__(self, pattern: str) -> None:
        self._pattern = pattern
        self._at = 0

    def whole(self) -> Expansion:
        """Returns the expansion of the whole pattern."""
        expansion = self._alternatives()
        if self._at < len(self._pattern):
            raise _NotUnderstood
        return expansion

    def _alternatives(self) -> Expansion:
        branches = [self._sequence()]
        while self._peek() == "|":
            self._at += 1
            branches.append(self._sequence())
        return _either(branches)

    def _sequence(self) -> Expansion:
        expansion: Expansion = (("",), True)
        while (char := self._peek()) and char not in "|)":
            atom = self._atom()
            expansion = _then(expansion, self._repeated(atom))
        return expansion

    def _atom(self) -> Expansion:
        char = self._pattern[self._at]
        self._at += 1
        if char == "(":
            return self._group()
        if char == "[":
            return self._set()
        if char == "\\":
            return self._escape()
        if char == ".":
            return (" ", "x", "中"), False
        if char in "^$":
            return ("",), True
        return (char,), True

    def _group(self) -> Expansion:
        rest = self._pattern[self._at :]
        if rest.startswith(("?:", "?>")):
            self._at += 2
        elif rest.startswith("?P<"):
            self._at = self._pattern.index(">", self._at) + 1
        elif rest.startswith(("?!", "?<!")):
            # What must not stand here only takes texts away; those are tried afterwards.
            self._at += 2 if rest.startswith("?!") else 3
            self._alternatives()
            self._at += 1
            return ("",), False
        elif rest.startswith("?"):
            raise _NotUnderstood
        expansion = self._alternatives()
        if self._peek() != ")":
            raise _NotUnderstood
        self._at += 1
        return expansion

    def _set(self) -> Expansion:
        if self._peek() == "^":
            self._at += 1
            self._skip_set()
            return ("x", "中", "1", " ", "-"), False
        chars: list[str] = []
        complete = True
        first = True
        while first or self._peek() != "]":
            first = False
            char = self._pattern[self._at]
            self._at += 1
            if char == "[":
                raise _NotUnderstood
            if char == "\\":
                some, known = self._escape()
                chars += some
                complete = complete and known
            elif self._peek() == "-" and self._pattern[self._at + 1] != "]":
                last = self._pattern[self._at + 1]
                self._at += 2
                span = range(ord(char), ord(last) + 1)
                chars += map(chr, islice(span, _RANGE))
                complete = complete and len(span) <= _RANGE
            else:
                chars.append(char)
        self._at += 1
        return tuple(chars), complete

    def _skip_set(self) -> None:
        first = True
        while first or self._peek() != "]":
            first = False
            self._at += 2 if self._peek() == "\\" else 1
        self._at += 1

    def _escape(self) -> Expansion:
        char = self._pattern[self._at]
        self._at += 1
        if char in "pP" and self._peek() == "{":
            end = self._pattern.index("}", self._at)
            name = self._pattern[self._at + 1 : end]
            self._at = end + 1
            if char == "P" or name not in _SCRIPTS:
                raise _NotUnderstood
            return (_SCRIPTS[name],), False
        if char in _CLASSES:
            return (_CLASSES[char],), False
        if char in "AZbBmM":
            return ("",), True
        if char == "n":
            return ("\n",), True
        if char == "t":
            return ("\t",), True
        if char.isalnum():
            raise _NotUnderstood
        return (char,), True

    def _repeated(self, atom: Expansion) -> Expansion:
        char = self._peek()
        if not char or char not in "*+?{":
            return atom
        self._at += 1
        least, most = {"*": (0, None), "+": (1, None), "?": (0, 1)}.get(char, (0, None))
        if char == "{":
            end = self._pattern.index("}", self._at)
            low, _, high = self._pattern[self._at : end].partition(",")
            least = int(low or 0)
            most = int(high) if high else None if "," in self._pattern[self._at : end] else least
            self._at = end + 1
        if self._peek() and self._peek() in "?+":
            self._at += 1
        counts = range(least, (least + 1 if most is None else min(most, least + 2)) + 1)
        some = _either([_times(atom, count) for count in counts])
        return some[0], some[1] and most is not None and counts[-1] == most

    def _peek(self) -> str:
        return self._pattern[self._at : self._at + 1]


def _then(first: Expansion, second: Expansion) -> Expansion:
    texts = tuple(islice((a + b for a, b in _spread(first[0], second[0])), MOST))
    return texts, first[1] and second[1] and len(first[0]) * len(second[0]) <= MOST


def _spread(first: Sequence[str], second: Sequence[str]) -> Iterable[tuple[str, str]]:
    """Pairs texts so that every text of the longer list comes early, and not only the first of one with all of the other."""
    longest = max(len(first), len(second))
    for shift in range(min(len(first), len(second))):
        for at in range(longest):
            yield (
                (first[(at + shift) % len(first)], second[at])
                if len(second) == longest
                else (first[at], second[(at + shift) % len(second)])
            )


def _either(branches: Sequence[Expansion]) -> Expansion:
    texts = tuple(dict.fromkeys(text for some, _ in branches for text in some))
    return texts[:MOST], all(known for _, known in branches) and len(texts) <= MOST


def _times(atom: Expansion, count: int) -> Expansion:
    expansion: Expansion = (("",), True)
    for _ in range(count):
        expansion = _then(expansion, atom)
    return expansion
