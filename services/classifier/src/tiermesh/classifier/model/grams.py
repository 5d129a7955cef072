"""A text as counts of its pieces, hashed into a fixed number of rows.

Two kinds of pieces are counted: runs of one to three *words* (a Chinese character, a digit and a punctuation
mark each being a word), and runs of one to four *characters*. Words carry what is asked for, characters carry
spelling, word stems and whatever no word list knows. Everything runs in numpy but the search for words.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from zlib import crc32

import numpy as np
from numpy.typing import NDArray

# At most 16: rows are sorted as numbers of two bytes.
WORD_BITS = 16
CHAR_BITS = 16
WORD_ROWS = 1 << WORD_BITS
CHAR_ROWS = 1 << CHAR_BITS
ROWS = WORD_ROWS + CHAR_ROWS
"""Rows of the table of weights: first those of words, then those of characters."""
WORD_ORDER = 3
CHAR_ORDER = 4

MAX_CHARS = 3072
"""What is read of a text, and so what bounds the time taken. Of a longer one, two thirds from its beginning and one third
from its end: people say what they want before or after what they paste."""

_WORDS = re.compile(r"[a-z\u00df-\u024f\u0370-\u1fff\uac00-\ud7a3]+|[^\s]")
_STEP = np.uint64(0x9E3779B97F4A7C15)
_MIX = np.uint64(0xD6E8FEB86659FD93)
_FOLD = np.uint64(32)
_HASHES_KEPT = 50_000
_LOGS = np.concatenate([[0.0], 1 + np.log(np.arange(1, MAX_CHARS + 2))]).astype(np.float32)

_hashes: dict[str, int] = {}
"""Hashes of words met before. Racing threads only do the same work twice."""


@dataclass(frozen=True, slots=True)
class Grams:
    """The pieces of one text."""

    word_rows: NDArray[np.intp]
    """Rows of the word pieces that occur, ascending."""
    word_values: NDArray[np.float32]
    """1 + ln(count) of each."""
    char_rows: NDArray[np.intp]
    """Rows of the character pieces that occur, ascending, counted from `WORD_ROWS`."""
    char_values: NDArray[np.float32]


def window(text: str) -> str:
    """Returns what is read of a text: all of it, or its beginning and its end."""
    if len(text) <= MAX_CHARS:
        return text
    tail = MAX_CHARS // 3
    return f"{text[: MAX_CHARS - tail - 1]}\n{text[-tail:]}"


def read_grams(text: str) -> Grams:
    """Counts the pieces of a folded text (`tiermesh.shared.rules.fold`). Any text will do."""
    text = window(text)
    words = np.fromiter(map(_word_hash, _WORDS.findall(text)), np.uint64)
    points = np.frombuffer(text.encode("utf-32-le", "replace"), np.uint32).astype(np.uint64)
    word_rows, word_values = _count(words, WORD_ORDER, WORD_BITS)
    char_rows, char_values = _count(points, CHAR_ORDER, CHAR_BITS)
    return Grams(word_rows, word_values, char_rows + WORD_ROWS, char_values)


def _word_hash(word: str) -> int:
    known = _hashes.get(word)
    if known is None:
        if len(_hashes) >= _HASHES_KEPT:
            _hashes.clear()
        known = _hashes[word] = crc32(word.encode("utf-8", "replace"))
    return known


def _count(units: NDArray[np.uint64], order: int, bits: int) -> tuple[NDArray[np.intp], NDArray[np.float32]]:
    if not len(units):
        return np.empty(0, np.intp), np.empty(0, np.float32)
    runs = (units + np.uint64(1)) * _STEP
    spread, lengths = runs, [runs]
    for length in range(2, min(order, len(units)) + 1):
        # Runs of unlike length must not meet, so each longer one is mixed once more.
        runs = (runs[:-1] * _MIX) + spread[length - 1 :]
        lengths.append(runs)
    # All lengths in one go: of a short text, the number of calls is what takes the time.
    mixed = np.concatenate(lengths)
    mixed ^= mixed >> _FOLD
    mixed *= _STEP
    mixed >>= np.uint64(64 - bits)
    met = mixed.astype(np.uint16)
    # Sorting a few thousand short numbers is quicker than looking through 65,536 counts for those that are not zero; what
    # numpy calls stable is a radix sort for numbers of two bytes, four times as fast as its quick sort.
    met.sort(kind="stable")
    (ends,) = np.nonzero(met[1:] != met[:-1])
    starts = np.empty(len(ends) + 1, np.intp)
    starts[0] = 0
    np.add(ends, 1, out=starts[1:])
    counts = np.empty(len(starts), np.intp)
    np.subtract(starts[1:], starts[:-1], out=counts[:-1])
    counts[-1] = len(met) - starts[-1]
    return met[starts].astype(np.intp), _LOGS.take(counts, mode="clip")
