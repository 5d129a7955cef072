"""A pattern, reduced to pieces that one automaton can look for together with those of all other patterns.

What holds a pattern's pieces apart, such as `.{0,60}`, makes an automaton of many patterns explode, so it is cut out, and a
text may match only if it has every piece. Pieces are written for RE2, whose classes and word boundaries
know ASCII alone: they are widened, so that no text that matches is ever ruled out. Where nothing was cut and nothing widened,
the pieces are the pattern, and finding them settles it. A construct that is not understood just asks for nothing. The
idea is that of RE2's `FilteredRE2` and of Cox, "Regular Expression Matching with a Trigram Index" (2012), with
expressions in the place of words.
"""

from __future__ import annotations

import enum
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby, product

from tiermesh.shared.rules.classes import (
    ANY,
    WORD_CHARS,
    Class,
    escape,
    read_class_escape,
    read_set,
    read_unlike,
    widened,
)


class Loss(enum.IntEnum):
    """How much of a pattern its pieces have lost."""

    NONE = 0
    BEYOND_ASCII = 1
    """Nothing in ASCII text; in other text they may be found where the pattern is not."""
    SOME = 2


@dataclass(frozen=True, slots=True)
class Branch:
    """One way to match a pattern: pieces that all occur in every text that matches this way."""

    pieces: tuple[str, ...]
    """In the syntax of RE2, in order; between two of them, something was cut out."""
    loss: Loss = Loss.NONE
    starts: bool = True
    """Whether what it matches begins with an ASCII letter, digit or `_`, unless it is empty."""
    ends: bool = True
    nullable: bool = True
    """Whether what it matches may be empty."""

    def then(self, other: Branch) -> Branch:
        """Returns the branch that matches one after the other."""
        loss = max(self.loss, other.loss)
        cut_behind = len(self.pieces) > 1 and not self.pieces[-1] and other.pieces != ("",)
        cut_before = len(other.pieces) > 1 and not other.pieces[0] and self.pieces != ("",)
        if cut_behind or cut_before:
            # Where a piece ends because of what must not follow, nothing is lost only if nothing does.
            loss = Loss.SOME
        return Branch(
            (*self.pieces[:-1], self.pieces[-1] + other.pieces[0], *other.pieces[1:]),
            loss,
            self.starts and (not self.nullable or other.starts),
            other.ends and (not other.nullable or self.ends),
            self.nullable and other.nullable,
        )


_NOTHING = Branch(("",))
_DROPPED = Branch(("",), Loss.SOME)
_GAP = Branch(("", ""), Loss.SOME, starts=False, ends=False)
_BOUNDARY = Branch((r"\b",), Loss.BEYOND_ASCII)
_MAX_BRANCHES = 24
_MAX_REPEATS = 4
"""More than these are cut out."""
_LOOKS = ("(?<=", "(?<!", "(?=", "(?!")
_PLACES = {"A": r"\A", "Z": r"\z"}
_DROPPED_PLACES = "BmMGK"
_CONTROLS = {"n": "\n", "t": "\t", "r": "\r", "f": "\f", "v": "\v"}


class _NotUnderstood(Exception):
    """The pattern has something that is not read here."""


def relax(pattern: str, *, in_ascii: bool = False) -> tuple[Branch, ...] | None:
    """Returns the ways to match a pattern, or None where nothing can be said about it.

    Args:
        pattern: For the `regex` library.
        in_ascii: Whether only texts of ASCII are meant. Most Chinese patterns have no way to match these.
    """
    reader = _Reader(pattern, in_ascii=in_ascii)
    try:
        branches = reader.alternatives()
    except (_NotUnderstood, IndexError, ValueError):
        return None
    return tuple(branches) if reader.at == len(pattern) else None


def is_anchored(pattern: str) -> bool:
    """Whether a pattern can only match where a text begins."""
    branches = relax(pattern) or ()
    return bool(branches) and all(branch.pieces[0].startswith(r"\A") for branch in branches)


def _merge(branches: Sequence[Branch]) -> list[Branch]:
    """Joins the branches that lost nothing to a gap: those of like loss become one."""
    whole = sorted((branch for branch in branches if len(branch.pieces) == 1), key=lambda branch: branch.loss)
    merged = [branch for branch in branches if len(branch.pieces) > 1]
    for loss, group in groupby(whole, key=lambda branch: branch.loss):
        alike = list(group)
        merged.append(
            alike[0]
            if len(alike) == 1
            else Branch(
                (f"(?:{'|'.join(branch.pieces[0] for branch in alike)})",),
                loss,
                all(branch.starts for branch in alike),
                all(branch.ends for branch in alike),
                any(branch.nullable for branch in alike),
            )
        )
    return merged if len(merged) <= _MAX_BRANCHES else [_GAP]


class _Reader:
    def __init__(self, pattern: str, *, in_ascii: bool) -> None:
        self._pattern = pattern
        self._in_ascii = in_ascii
        self.at = 0

    def alternatives(self) -> list[Branch]:
        branches = self.branch()
        while self._peek() == "|":
            self.at += 1
            branches.extend(self.branch())
        return _merge(branches)

    def branch(self) -> list[Branch]:
        """Reads one alternative, up to the next or to the end of the group."""
        items: list[list[Branch]] = []
        while (char := self._peek()) and char not in "|)":
            items.append(self._quantified(self._item()))
        joined = [_NOTHING]
        for at, item in enumerate(items):
            kept = self._in_ascii or item != [_BOUNDARY] or _ends_in_word(joined) or _starts_with_word(items[at + 1 :])
            # Where neither side is known, there may be a boundary that RE2 does not see.
            joined = [left.then(right) for left, right in product(joined, item if kept else [_DROPPED])]
            if len(joined) > _MAX_BRANCHES:
                joined = [_GAP]
        return joined

    def _item(self) -> list[Branch]:
        char = self._pattern[self.at]
        if char == "(":
            return self._group()
        self.at += 1
        if char == "[":
            return [_one_of(self._set())]
        if char == "\\":
            return self._escape()
        if char == ".":
            return [Branch((".",), starts=False, ends=False, nullable=False)]
        if char in "^$":
            return [Branch((f"(?m:{char})",))]
        return self._literal(char)

    def _group(self) -> list[Branch]:
        rest = self._pattern[self.at :]
        if rest.startswith("(?#"):
            self.at = self._pattern.index(")", self.at) + 1
            return [_NOTHING]
        looks = next((look for look in _LOOKS if rest.startswith(look)), None)
        lost = Loss.NONE
        if looks is not None:
            self.at += len(looks)
            unlike = self._unlike(looks)
            if unlike is not None:
                return [unlike]
        elif rest.startswith("(?P<"):
            self.at = self._pattern.index(">", self.at) + 1
        elif rest.startswith("(?:"):
            self.at += 3
        elif rest.startswith("(?>"):
            self.at += 3
            lost = Loss.SOME
        elif rest.startswith("(?"):
            # Flags and conditionals change the rules of reading.
            raise _NotUnderstood
        else:
            self.at += 1
        branches = self.alternatives()
        if self._pattern[self.at] != ")":
            raise _NotUnderstood
        self.at += 1
        if looks is not None:
            return [_DROPPED]
        return [branch.then(_DROPPED) for branch in branches] if lost else branches

    def _unlike(self, looks: str) -> Branch | None:
        """Reads a look-around that forbids one neighbouring character, if it is that; returns what is there instead."""
        start = self.at
        found = None
        if looks.endswith("!") and self._pattern[start : start + 1]:
            found, end = read_unlike(self._pattern, start)
        if found is None or self._pattern[end] != ")":
            self.at = start
            return None
        self.at = end + 1
        other = _one_of(found)
        pieces = (rf"(?:{other.pieces[0]}|\z)", "") if looks == "(?!" else ("", rf"(?:{other.pieces[0]}|\A)")
        return Branch(pieces, other.loss, starts=False, ends=False)

    def _set(self) -> Class:
        found, self.at = read_set(self._pattern, self.at)
        if found is None:
            raise _NotUnderstood
        return found

    def _escape(self) -> list[Branch]:
        char = self._pattern[self.at]
        if char == "b":
            self.at += 1
            return [_BOUNDARY]
        if char in _PLACES or char in _DROPPED_PLACES:
            self.at += 1
            return [Branch((_PLACES[char],)) if char in _PLACES else _DROPPED]
        if char in _CONTROLS:
            self.at += 1
            return self._literal(_CONTROLS[char])
        known = read_class_escape(self._pattern, self.at)
        if known is not None:
            of_class, self.at = known
            if not (self._in_ascii and of_class.exact_in_ascii):
                return [_one_of(widened(of_class))]
            return [_one_of(Class(f"[{of_class.least}]", exact=True, exact_in_ascii=True))] if of_class.least else []
        if char.isalnum():
            raise _NotUnderstood
        self.at += 1
        return self._literal(char)

    def _literal(self, char: str) -> list[Branch]:
        if self._in_ascii and not char.isascii():
            return []
        word = char in WORD_CHARS
        return [Branch((escape(char),), Loss.NONE, word, word, nullable=False)]

    def _quantified(self, item: list[Branch]) -> list[Branch]:
        bounds = self._bounds()
        if bounds is None:
            return item
        least, most, possessive = bounds
        if not item:
            return item if least else [_NOTHING]
        if len(item) > 1 or len(item[0].pieces) > 1:
            return [_GAP]
        once = item[0]
        if most is None or most > _MAX_REPEATS:
            # At least the first and the last of them are there, next to what stands before and after.
            return [_GAP if not least else once.then(_GAP).then(once)]
        text = f"(?:{once.pieces[0]})" + ("?" if (least, most) == (0, 1) else f"{{{least},{most}}}")
        loss = Loss.SOME if possessive else once.loss
        return [Branch((text,), loss, once.starts, once.ends, once.nullable or not least)]

    def _bounds(self) -> tuple[int, int | None, bool] | None:
        """Reads a quantifier: least, most (None without bound), and whether it is possessive."""
        char = self._peek()
        if not char or char not in "*+?{":
            return None
        self.at += 1
        least, most = (1 if char == "+" else 0), (1 if char == "?" else None)
        if char == "{":
            end = self._pattern.index("}", self.at)
            low, comma, high = self._pattern[self.at : end].partition(",")
            # Anything else may be a literal brace, or a fuzzy match.
            if not (low.isascii() and low.isdigit()) or (high and not high.isdigit()):
                raise _NotUnderstood
            least = int(low)
            most = int(high) if high else None if comma else least
            self.at = end + 1
        suffix = self._peek()
        if suffix and suffix in "?+":
            self.at += 1
        if self._peek() and self._peek() in "*+?{":
            raise _NotUnderstood
        return least, most, suffix == "+"

    def _peek(self) -> str:
        return self._pattern[self.at : self.at + 1]


def _starts_with_word(items: Sequence[Sequence[Branch]]) -> bool:
    """Whether what follows begins with an ASCII letter, digit or `_`, whatever is matched."""
    for branches in items:
        if not all(branch.starts for branch in branches):
            return False
        if not any(branch.nullable for branch in branches):
            return True
    return False


def _ends_in_word(joined: Sequence[Branch]) -> bool:
    return all(branch.ends and not branch.nullable for branch in joined)


def _one_of(found: Class) -> Branch:
    loss = Loss.NONE if found.exact else Loss.BEYOND_ASCII if found.exact_in_ascii else Loss.SOME
    return Branch((found.text or ANY,), loss, found.word, found.word, nullable=False)
