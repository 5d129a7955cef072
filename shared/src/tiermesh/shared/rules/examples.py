"""Which label's examples a short text is most like, and whether it is like any at all.

A text is the words, pairs of words and runs of three and four characters in it (of Chinese and Japanese: characters, pairs
and triples), weighed by how rare they are among the examples; a label is the mean of its examples, and likeness the
cosine. Pieces that no example has count as rare ones, so a text about something else is like nothing. No model and no
library: a set of a hundred labels takes well under a millisecond.

How like is like enough is learnt from the examples: each is compared with the rest of its label, and the threshold is
what nine of ten reach.
"""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

import regex
from tiermesh.shared.rules.text import WRITTEN_TOGETHER, fold

_WORDS = regex.compile(rf"[{WRITTEN_TOGETHER}]|[\p{{L}}\p{{M}}\p{{N}}']+")
_TOGETHER = regex.compile(rf"[{WRITTEN_TOGETHER}]")
_KEPT = 0.9
"""Share of the examples that must still be recognised by the others of their label."""
UNTESTED_THRESHOLD = 0.5
"""Where labels have a single example each, which cannot be compared with others of its own."""


@dataclass(frozen=True, slots=True)
class Likeness:
    """What a text is most like."""

    label: str | None
    """None where it is most like the examples of what is out of scope."""
    likeness: float
    """0 to 1."""
    lead: float
    """How much more than the next label."""


Vector = Mapping[str, float]


class ExampleIndex:
    """Examples of labels, ready to be compared with. Immutable.

    Args:
        examples: By label; each has at least one.
        out_of_scope: Texts that are none of the labels; may be empty.
    """

    def __init__(self, examples: Mapping[str, Sequence[str]], out_of_scope: Sequence[str] = ()) -> None:
        groups: dict[str | None, Sequence[str]] = dict(examples.items())
        if out_of_scope:
            groups[None] = out_of_scope
        counts = {label: [_pieces(text) for text in some] for label, some in groups.items()}
        seen = Counter(piece for some in counts.values() for pieces in some for piece in {*pieces[0], *pieces[1]})
        total = sum(map(len, counts.values()))
        self._rarity = {piece: math.log((1 + total) / (1 + times)) + 1 for piece, times in seen.items()}
        self._rarest = math.log(1 + total) + 1
        vectors = {label: [self._vector(pieces) for pieces in some] for label, some in counts.items()}
        self._labels = tuple(vectors)
        index: dict[str, list[tuple[int, float]]] = defaultdict(list)
        sums = [_sum(some) for some in vectors.values()]
        for number, centre in enumerate(sums):
            length = _length(centre)
            for piece, weight in centre.items():
                index[piece].append((number, weight / length))
        self._index = dict(index)
        self.threshold = _threshold(list(vectors.values()), sums)
        """How like one of the labels a text has to be."""

    def nearest(self, text: str, among: Iterable[str] | None = None) -> Likeness:
        """Returns what a text is most like.

        Args:
            text: In any form.
            among: Labels that count; all of them by default. What is out of scope always counts.
        """
        scores = [0.0] * len(self._labels)
        for piece, weight in self._vector(_pieces(text)).items():
            for number, other in self._index.get(piece, ()):
                scores[number] += weight * other
        allowed = None if among is None else {None, *among}
        ranked = sorted(
            (score, number) for number, score in enumerate(scores) if allowed is None or self._labels[number] in allowed
        )
        if not ranked:
            return Likeness(None, 0.0, 0.0)
        best, number = ranked[-1]
        return Likeness(self._labels[number], min(1.0, best), best - (ranked[-2][0] if len(ranked) > 1 else 0.0))

    def _vector(self, pieces: tuple[Counter[str], Counter[str]]) -> Vector:
        found: dict[str, float] = {}
        # Words and runs of characters count alike, however many there are of each.
        for some in pieces:
            weighed = {
                piece: (1 + math.log(count)) * self._rarity.get(piece, self._rarest) for piece, count in some.items()
            }
            length = _length(weighed)
            for piece, weight in weighed.items():
                found[piece] = weight / length
        length = _length(found)
        return {piece: weight / length for piece, weight in found.items()}


def _pieces(text: str) -> tuple[Counter[str], Counter[str]]:
    """Returns how often each word piece and each run of characters occurs; the two share no keys."""
    words = _WORDS.findall(fold(text))
    spoken = Counter(f"w {word}" for word in words)
    spoken.update(f"w {first} {second}" for first, second in pairwise(words))
    runs: Counter[str] = Counter()
    together = ""
    for word in words:
        if _TOGETHER.match(word):
            together += word
            continue
        padded = f" {word} "
        for size in (3, 4):
            runs.update(f"c{padded[at : at + size]}" for at in range(len(padded) - size + 1))
    runs.update(f"c{together[at : at + 3]}" for at in range(len(together) - 2))
    return spoken, runs


def _sum(vectors: Sequence[Vector]) -> dict[str, float]:
    total: dict[str, float] = defaultdict(float)
    for vector in vectors:
        for piece, weight in vector.items():
            total[piece] += weight
    return total


def _length(vector: Vector) -> float:
    return math.sqrt(sum(weight * weight for weight in vector.values())) or 1.0


def _threshold(groups: Sequence[Sequence[Vector]], sums: Sequence[Vector]) -> float:
    """Returns what nine of ten examples reach when compared with the others of their label."""
    reached = []
    for vectors, total in zip(groups, sums, strict=True):
        if len(vectors) < 2:
            continue
        whole = sum(weight * weight for weight in total.values())
        for vector in vectors:
            # Likeness to the mean of the others, from the sums of all: (s - v) . v / |s - v|, where |v| = 1.
            shared = sum(weight * total[piece] for piece, weight in vector.items())
            rest = math.sqrt(max(1e-12, whole - 2 * shared + 1))
            reached.append((shared - 1) / rest)
    if not reached:
        return UNTESTED_THRESHOLD
    reached.sort()
    return max(0.0, reached[int((1 - _KEPT) * len(reached))])
