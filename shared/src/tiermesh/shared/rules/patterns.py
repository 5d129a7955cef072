"""Regular expressions that operators write: checked when loaded, bounded when run.

The `regex` library is used for its time limit. A pattern that needs exponential or quadratic time
is refused when the file is read, as far as probes can tell; what still runs long is cut off.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

import ahocorasick
import regex
from tiermesh.shared.rules.literals import is_anchored, required_words
from tiermesh.shared.rules.text import unify

FLAGS = regex.MULTILINE
"""`^` and `$` match at lines; `\\A` and `\\Z` at the text. Texts are folded, so no IGNORECASE."""

_PROBE_CHARS = 2000
_PROBE_LIMIT_S = 0.05
_ESCAPES = regex.compile(r"\\[pP]\{[^}]*\}|\\.|\(\?P?<\w+>|\[:\^?\w+:\]|\(\?P[=>]\w+\)")
_LITERALS = regex.compile(r"[\p{L}\p{N}]+")
_ASCII_LETTER = regex.compile("[A-Za-z]")
_PROBES = tuple(
    (unit * _PROBE_CHARS)[:_PROBE_CHARS] + end for unit in ("a", "a ", " ", "1", "中", ".\n") for end in ("", "!")
)

SEARCH_LIMIT_S = 0.005
"""Longest that one pattern may look at one text."""
MAX_OVERRUNS = 3
"""Patterns that may run into the limit in one judgement; the ones after that are not tried."""


def check_pattern(pattern: str) -> str:
    """Returns a pattern that can be used as it is.

    Raises:
        ValueError: it does not compile, could never match folded text, or needs too much time.
    """
    try:
        compiled = regex.compile(pattern, FLAGS)
    except regex.error as error:
        raise ValueError(f"is no regular expression: {error}") from None
    plain = _ESCAPES.sub("", pattern)
    capital = next((char for char in plain if char.isupper()), None)
    if capital is not None:
        raise ValueError(f"has a capital {capital!r}, but patterns see lower-case text; write it in lower case")
    if unify(plain) != plain:
        wide = next(char for char in plain if unify(char) != char)
        raise ValueError(f"has {wide!r}, but patterns see {unify(wide)!r} in its place; write that")
    if compiled.search("") is not None:
        raise ValueError("matches an empty text, and so every text; require at least one character")
    words = " ".join(_LITERALS.findall(plain)) or "a"
    own = (f"{words} " * (_PROBE_CHARS // len(words) + 1))[:_PROBE_CHARS]
    for probe in (*_PROBES, own):
        try:
            compiled.search(probe, timeout=_PROBE_LIMIT_S)
        except TimeoutError:
            raise ValueError(
                f"takes over {_PROBE_LIMIT_S * 1000:.0f} ms on {len(probe)} characters; avoid nested repeats and bound the others, as in .{{0,40}}"
            ) from None
    return pattern


@dataclass(frozen=True, slots=True)
class CompiledPattern:
    """A pattern and the words without which it need not be tried."""

    pattern: regex.Pattern[str]
    required: tuple[frozenset[str], ...]
    """Of each clause, one word at least."""
    needs_ascii: bool
    """Whether one of the clauses has only words with ASCII letters, which Chinese text mostly lacks."""
    needs_beyond_ascii: bool
    """Whether one of the clauses has only words beyond ASCII, which English text mostly lacks."""
    anchored: bool
    """Whether it can only match where the text begins, so that no other place need be tried."""


def compile_patterns(patterns: Sequence[str]) -> tuple[CompiledPattern, ...]:
    """Compiles patterns that `check_pattern` has let through."""
    return tuple(compile_pattern(pattern) for pattern in patterns)


def compile_pattern(pattern: str) -> CompiledPattern:
    """Compiles a pattern that `check_pattern` has let through."""
    required = required_words(pattern)
    return CompiledPattern(
        regex.compile(pattern, FLAGS),
        tuple(frozenset(words) for words in required),
        needs_ascii=any(all(_ASCII_LETTER.search(word) for word in words) for words in required),
        needs_beyond_ascii=any(not any(word.isascii() for word in words) for words in required),
        anchored=is_anchored(pattern),
    )


class WordFinder:
    """Finds which of many words occur in a text, in one pass over it (Aho and Corasick, 1975).

    Looking for them one by one took longer than all the patterns that are run because of them.

    Args:
        patterns: Whose required words are meant.
    """

    def __init__(self, patterns: Iterable[CompiledPattern]) -> None:
        self._automaton = ahocorasick.Automaton()
        for word in {word for pattern in patterns for words in pattern.required for word in words}:
            self._automaton.add_word(word, word)
        self._automaton.make_automaton()
        self._empty = not len(self._automaton)

    def present(self, text: str) -> frozenset[str]:
        """Returns the words that occur in a text, anywhere, inside of others too."""
        if self._empty:
            return frozenset()
        return frozenset(word for _, word in self._automaton.iter(text))


@dataclass(slots=True)
class Search:
    """One text being searched, and how many patterns have run into the time limit on it."""

    text: str
    present: frozenset[str]
    """Required words of the patterns that occur in it, as of `WordFinder`."""
    overruns: int = 0
    is_ascii: bool = field(init=False)
    has_ascii_letters: bool = field(init=False)

    def __post_init__(self) -> None:
        self.is_ascii = self.text.isascii()
        self.has_ascii_letters = _ASCII_LETTER.search(self.text) is not None

    def found_any(self, patterns: Sequence[CompiledPattern]) -> bool:
        """Whether one of the patterns occurs in the text."""
        for compiled in patterns:  # noqa: SIM110 -- a generator would double the cost of a look-up
            if self.found(compiled):
                return True
        return False

    def found_all(self, patterns: Sequence[CompiledPattern]) -> bool:
        """Whether every one of the patterns occurs in the text."""
        for compiled in patterns:  # noqa: SIM110 -- as above
            if not self.found(compiled):
                return False
        return True

    def found(self, compiled: CompiledPattern) -> bool:
        """Whether a pattern occurs in the text; False where that took too long to say."""
        if (compiled.needs_beyond_ascii and self.is_ascii) or (compiled.needs_ascii and not self.has_ascii_letters):
            return False
        for words in compiled.required:
            if self.present.isdisjoint(words):
                return False
        if self.overruns >= MAX_OVERRUNS:
            return False
        try:
            look = compiled.pattern.match if compiled.anchored else compiled.pattern.search
            return look(self.text, timeout=SEARCH_LIMIT_S) is not None
        except TimeoutError:
            self.overruns += 1
            return False
