"""Tells in one pass over a text which of many patterns can match it, and which do for certain."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

import re2
from tiermesh.shared.rules.relaxed import Branch, Loss, relax

MEMORY_BYTES = 32 << 20
"""States are made as texts call for them; the shipped rules need about one MB."""
_ALWAYS = r"\z"
"""Found in every text: where it is not, the automaton has failed."""


@dataclass(frozen=True, slots=True)
class Sifted:
    """What one pass over a text says of each pattern, by number."""

    possible: frozenset[int]
    """All that match are among these."""
    certain: frozenset[int]
    """These match."""


class Sieve:
    """Looks for the pieces of all patterns at once, with one automaton, in time linear in the text.

    Args:
        patterns: Numbered from 0, as `check_pattern` has let them through.
        memory_bytes: At most, for the automaton and its states. Where they do not fit, every pattern is possible.
    """

    def __init__(self, patterns: Sequence[str], *, memory_bytes: int = MEMORY_BYTES) -> None:
        self._everywhere = set[int]()
        """Patterns of which no piece can be looked for."""
        self._alone: dict[int, list[tuple[int, Loss]]] = defaultdict(list)
        self._together: dict[int, list[tuple[int, frozenset[int]]]] = defaultdict(list)
        self._all = Sifted(frozenset(range(len(patterns))), frozenset())
        self._pieces: dict[str, int] = {}
        options = re2.Options()
        options.max_mem = memory_bytes
        options.log_errors = False
        self._set = re2.Set.SearchSet(options)
        self._always = self._number(_ALWAYS)
        for number, pattern in enumerate(patterns):
            if not self._add(number, relax(pattern)):
                self._everywhere.add(number)
        try:
            self._set.Compile()
        except re2.error:
            # Too large together. The set must not be asked from here on.
            self._set = None

    def sift(self, text: str) -> Sifted:
        """Returns which patterns can match a text."""
        try:
            met = () if self._set is None else self._set.Match(text.encode()) or ()
        except UnicodeEncodeError:
            # Half a surrogate pair has no UTF-8.
            return self._all
        pieces = frozenset(met)
        if self._always not in pieces:
            return self._all
        possible, certain = set(self._everywhere), set[int]()
        sure = Loss.BEYOND_ASCII if text.isascii() else Loss.NONE
        for piece in met:
            for number, loss in self._alone.get(piece, ()):
                possible.add(number)
                if loss <= sure:
                    certain.add(number)
            for number, others in self._together.get(piece, ()):
                if others <= pieces:
                    possible.add(number)
        return Sifted(frozenset(possible), frozenset(certain))

    def _add(self, number: int, branches: Sequence[Branch]) -> bool:
        """Adds the pieces of a pattern; returns whether there are some in each of its branches."""
        try:
            wanted = [(tuple(dict.fromkeys(filter(_telling, branch.pieces))), branch) for branch in branches]
            if not wanted or not all(pieces for pieces, _ in wanted):
                return False
            numbered = [(*map(self._number, pieces),) for pieces, _ in wanted]
        except re2.error:
            return False
        for (first, *others), (_, branch) in zip(numbered, wanted, strict=True):
            if others:
                self._together[first].append((number, frozenset(others)))
            else:
                self._alone[first].append((number, branch.loss))
        return True

    def _number(self, piece: str) -> int:
        if piece not in self._pieces:
            self._pieces[piece] = self._set.Add(piece)
        return self._pieces[piece]


def _telling(piece: str) -> bool:
    """Whether a piece may be missing from a text: an empty match is everywhere."""
    return re2.search(piece, "") is None
