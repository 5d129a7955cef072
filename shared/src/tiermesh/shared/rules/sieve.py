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

    There are two of it: for texts of ASCII a much smaller one does, in which no Chinese pattern has a part.

    Args:
        patterns: Numbered from 0, as `check_pattern` has let them through.
        memory_bytes: At most, for each automaton and its states. Where they do not fit, every pattern is possible.
    """

    def __init__(self, patterns: Sequence[str], *, memory_bytes: int = MEMORY_BYTES) -> None:
        self._all = Sifted(frozenset(range(len(patterns))), frozenset())
        self._in_ascii = _Automaton(
            [relax(pattern, in_ascii=True) for pattern in patterns], Loss.BEYOND_ASCII, memory_bytes
        )
        self._in_any = _Automaton([relax(pattern) for pattern in patterns], Loss.NONE, memory_bytes)

    def sift(self, text: str) -> Sifted:
        """Returns which patterns can match a text."""
        try:
            raw = text.encode()
        except UnicodeEncodeError:
            # Half a surrogate pair has no UTF-8.
            return self._all
        return (self._in_ascii if len(raw) == len(text) else self._in_any).sift(raw) or self._all


class _Automaton:
    """Of the pieces of all patterns.

    Args:
        relaxed: The branches of each pattern; None for one that is possible everywhere.
        sure: Branches that have lost no more than this are settled by their piece.
        memory_bytes: At most, for the automaton and its states.
    """

    def __init__(self, relaxed: Sequence[Sequence[Branch] | None], sure: Loss, memory_bytes: int) -> None:
        self._everywhere = set[int]()
        """Patterns of which no piece can be looked for."""
        self._alone: dict[int, list[tuple[int, bool]]] = defaultdict(list)
        """By piece, the patterns that are possible where it is, and whether they are certain."""
        self._together: dict[int, list[tuple[int, frozenset[int]]]] = defaultdict(list)
        """By piece, the patterns that are possible where other pieces are as well."""
        self._pieces: dict[str, int] = {}
        options = re2.Options()
        options.max_mem = memory_bytes
        options.log_errors = False
        self._set = re2.Set.SearchSet(options)
        self._always = self._number(_ALWAYS)
        for number, branches in enumerate(relaxed):
            if branches is None or not self._add(number, branches, sure):
                self._everywhere.add(number)
        try:
            self._set.Compile()
        except re2.error:
            # Too large together. The set must not be asked from here on.
            self._set = None

    def sift(self, raw: bytes) -> Sifted | None:
        """Returns which patterns can match a text in UTF-8; None where that cannot be told."""
        met = () if self._set is None else self._set.Match(raw) or ()
        pieces = frozenset(met)
        if self._always not in pieces:
            return None
        possible, certain = set(self._everywhere), set[int]()
        for piece in met:
            for number, settled in self._alone.get(piece, ()):
                possible.add(number)
                if settled:
                    certain.add(number)
            for number, others in self._together.get(piece, ()):
                if others <= pieces:
                    possible.add(number)
        return Sifted(frozenset(possible), frozenset(certain))

    def _add(self, number: int, branches: Sequence[Branch], sure: Loss) -> bool:
        """Adds the pieces of a pattern; returns whether there are some in each of its branches."""
        try:
            wanted = [(tuple(dict.fromkeys(filter(_telling, branch.pieces))), branch) for branch in branches]
            if not all(pieces for pieces, _ in wanted):
                return False
            numbered = [(*map(self._number, pieces),) for pieces, _ in wanted]
        except re2.error:
            return False
        for (first, *others), (_, branch) in zip(numbered, wanted, strict=True):
            if others:
                self._together[first].append((number, frozenset(others)))
            else:
                self._alone[first].append((number, branch.loss <= sure))
        return True

    def _number(self, piece: str) -> int:
        if piece not in self._pieces:
            self._pieces[piece] = self._set.Add(piece)
        return self._pieces[piece]


def _telling(piece: str) -> bool:
    """Whether a piece may be missing from a text: an empty match is everywhere."""
    return re2.search(piece, "") is None
