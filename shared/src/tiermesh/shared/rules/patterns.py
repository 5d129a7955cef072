"""Regular expressions that operators write: checked when loaded, bounded when run.

Which patterns a text can match, one pass over it tells (`tiermesh.shared.rules.sieve`), in linear time; only these are run.
They are run by the `regex` library, for its time limit and for what RE2 has not: look-around, boundaries of words in every
script. A pattern that needs exponential or quadratic time is refused when the file is read, as far as probes can
tell; what still runs long is cut off.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

import regex
from tiermesh.shared.rules.relaxed import is_anchored
from tiermesh.shared.rules.sieve import Sieve, Sifted
from tiermesh.shared.rules.text import unify

FLAGS = regex.MULTILINE
"""`^` and `$` match at lines; `\\A` and `\\Z` at the text. Texts are folded, so no IGNORECASE."""

_PROBE_CHARS = 2000
_PROBE_LIMIT_S = 0.05
_ESCAPES = regex.compile(r"\\[pP]\{[^}]*\}|\\.|\(\?P?<\w+>|\[:\^?\w+:\]|\(\?P[=>]\w+\)")
_LITERALS = regex.compile(r"[\p{L}\p{N}]+")
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


class Patterns:
    """Patterns that are looked for together, each known by a number."""

    def __init__(self, patterns: Iterable[str]) -> None:
        """Compiles patterns.

        Args:
            patterns: As `check_pattern` has let them through; ones that are alike count once.
        """
        self._numbers = {pattern: number for number, pattern in enumerate(dict.fromkeys(patterns))}
        self._sieve = Sieve(tuple(self._numbers))
        self._looks = tuple(
            compiled.match if is_anchored(compiled.pattern) else compiled.search
            for compiled in (regex.compile(pattern, FLAGS) for pattern in self._numbers)
        )

    def number(self, pattern: str) -> int:
        """Returns the number of one of the patterns."""
        return self._numbers[pattern]

    def search(self, text: str) -> Search:
        """Looks at a folded text once, for all patterns."""
        return Search(text, self._sieve.sift(text), self._looks)


@dataclass(slots=True)
class Search:
    """One text being searched, and how many patterns have run into the time limit on it."""

    text: str
    sifted: Sifted
    looks: Sequence[Callable[..., regex.Match[str] | None]]
    overruns: int = 0

    def found_any(self, numbers: Iterable[int]) -> bool:
        """Whether one of the patterns occurs in the text."""
        return any(map(self.found, numbers))

    def found_all(self, numbers: Iterable[int]) -> bool:
        """Whether every one of the patterns occurs in the text."""
        return all(map(self.found, numbers))

    def found(self, number: int) -> bool:
        """Whether a pattern occurs in the text; False where that took too long to say."""
        if number in self.sifted.certain:
            return True
        if number not in self.sifted.possible or self.overruns >= MAX_OVERRUNS:
            return False
        try:
            return self.looks[number](self.text, timeout=SEARCH_LIMIT_S) is not None
        except TimeoutError:
            self.overruns += 1
            return False
