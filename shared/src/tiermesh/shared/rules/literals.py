"""Which words a text must contain for a pattern to match it at all.

Most patterns are about words that most texts lack. Looking for a word costs a hundredth of running
the pattern, so a pattern is run only where its words are there. What is extracted is a condition
that every match fulfils; a construct that is not understood just asks for nothing. The idea is that of RE2's
`FilteredRE2` and of Cox, "Regular Expression Matching with a Trigram Index" (2012).
"""

from __future__ import annotations

from dataclasses import dataclass, field

Clause = frozenset[str]
"""At least one of these is in every text that matches."""

_MAX_WORDS = 48
_QUANTIFIERS = "*+?{"
_ASSERTIONS = ("(?=", "(?!", "(?<=", "(?<!", "(?#")
_NO_WIDTH = "AZbBmMGK"


def required_words(pattern: str) -> tuple[tuple[str, ...], ...]:
    """Returns clauses, all of which hold for every text that a pattern matches; fewest words first."""
    reader = _Reader(pattern)
    try:
        clauses = reader.alternatives()
    except IndexError:
        return ()
    if reader.at < len(pattern):
        return ()
    return tuple(tuple(sorted(clause)) for clause in sorted(clauses, key=lambda clause: (len(clause), sorted(clause))))


@dataclass(slots=True)
class _Branch:
    """One alternative, while it is being read."""

    clauses: list[Clause] = field(default_factory=list)
    run: str = ""
    """Characters that follow each other directly."""

    def flush(self) -> None:
        if _is_telling(self.run):
            self.clauses.append(frozenset((self.run,)))
        self.run = ""


class _Reader:
    def __init__(self, pattern: str) -> None:
        self._pattern = pattern
        self.at = 0

    def alternatives(self) -> list[Clause]:
        branches = [self.branch()]
        while self._peek() == "|":
            self.at += 1
            branches.append(self.branch())
        if len(branches) == 1:
            return branches[0]
        # Any one branch may match, so only one clause of each can be asked for, and only all together.
        words: set[str] = set()
        for clauses in branches:
            if not clauses:
                return []
            words |= min(clauses, key=lambda clause: (len(clause), -min(map(len, clause))))
        return [frozenset(words)] if len(words) <= _MAX_WORDS else []

    def branch(self) -> list[Clause]:
        """Reads one alternative, up to the next or to the end of the group."""
        branch = _Branch()
        while (char := self._peek()) and char not in "|)":
            self._atom(branch)
        branch.flush()
        return branch.clauses

    def _atom(self, branch: _Branch) -> None:
        literal, clauses = "", list[Clause]()
        char = self._pattern[self.at]
        if char == "(":
            clauses = self._group()
        elif char == "[":
            clauses = self._set()
        elif char == "\\":
            literal = self._escape()
        elif char in ".^$":
            self.at += 1
        else:
            literal = char
            self.at += 1
        optional, repeated = self._quantifier()
        if literal and not (optional or repeated):
            branch.run += literal
            return
        if literal and not optional:
            branch.run += literal
        branch.flush()
        if not optional:
            branch.clauses.extend(clauses)

    def _group(self) -> list[Clause]:
        rest = self._pattern[self.at :]
        if rest.startswith("(?P<"):
            self.at = self._pattern.index(">", self.at) + 1
        elif rest.startswith(("(?:", "(?>")):
            self.at += 3
        elif rest.startswith(_ASSERTIONS):
            self._skip_group()
            return []
        elif rest.startswith("(?"):
            # Flags and conditionals change the rules of reading: give up.
            raise IndexError
        else:
            self.at += 1
        clauses = self.alternatives()
        if self._peek() != ")":
            raise IndexError
        self.at += 1
        return clauses

    def _skip_group(self) -> None:
        self.at += 3
        self.alternatives()
        self.at += 1

    def _set(self) -> list[Clause]:
        self.at += 1
        chars, plain = "", True
        if self._pattern[self.at] == "^":
            plain = False
            self.at += 1
        first = True
        while first or self._pattern[self.at] != "]":
            first = False
            char = self._pattern[self.at]
            if char == "\\":
                char = self._escape()
                plain = plain and bool(char)
            else:
                plain = plain and char not in "-[&~|"
                self.at += 1
            chars += char
        self.at += 1
        words = frozenset(chars)
        return [words] if plain and words and all(map(_is_telling, words)) else []

    def _escape(self) -> str:
        """Reads an escape; returns the character it stands for, or nothing for a class or a place."""
        char = self._pattern[self.at + 1]
        self.at += 2
        if char in "pP" and self._peek() == "{":
            self.at = self._pattern.index("}", self.at) + 1
            return ""
        if char in "xuUNgkLX" or char.isdigit():
            raise IndexError
        if char == "n":
            return "\n"
        return "" if char.isalpha() or char in _NO_WIDTH else char

    def _quantifier(self) -> tuple[bool, bool]:
        """Reads a quantifier; returns whether it allows none, and whether there is one at all."""
        char = self._peek()
        if not char or char not in _QUANTIFIERS:
            return False, False
        optional = char in "*?"
        self.at += 1
        if char == "{":
            end = self._pattern.index("}", self.at)
            least = self._pattern[self.at : end].split(",")[0]
            if not least.isdigit():
                raise IndexError
            optional = int(least) == 0
            self.at = end + 1
        if self._peek() and self._peek() in "?+":
            self.at += 1
        return optional, True

    def _peek(self) -> str:
        return self._pattern[self.at : self.at + 1]


_COMMON = frozenset(" \n.,'\"-:;()")


def _is_telling(word: str) -> bool:
    """Whether a text is likely to lack a word: two letters or more, one Chinese character, or a rare sign."""
    if len(word) != 1:
        return len(word) > 1
    return word > "\u2e80" or not (word.isalnum() or word in _COMMON)


def is_anchored(pattern: str) -> bool:
    """Whether a pattern can only match where a text begins."""
    if not pattern.startswith(r"\A"):
        return False
    reader = _Reader(pattern)
    try:
        reader.branch()
    except IndexError:
        return False
    return reader.at == len(pattern)
