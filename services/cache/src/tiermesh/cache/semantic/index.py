"""The questions that a replica remembers, by partition."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from tiermesh.cache.eviction import SampledKeys, Worth, least_worth
from tiermesh.cache.ports import Neighbours
from tiermesh.cache.semantic import lexical
from tiermesh.cache.semantic.question import Question, question_of
from tiermesh.cache.semantic.records import Filed, Record
from tiermesh.shared.clock import Clock

_SAME_WORDING = 0.2


@dataclass(slots=True)
class Known:
    """A remembered question."""

    record: Record
    filed: Filed
    used_at: float

    @property
    def question(self) -> Question:
        """The question taken apart: only where it is compared with one that is asked."""
        return question_of(self.record.text)


@dataclass(frozen=True, slots=True)
class Candidate:
    """The remembered question that is most like one that is asked."""

    known: Known
    similarity: float
    """Cosine of the vectors, or 1 for equal wording where there are none."""
    same_wording: bool = False
    """Whether the two differ in filler, known synonyms and order alone."""

    @property
    def likeness(self) -> float:
        """What the threshold is compared with: of equal words a cosine need not say much more."""
        return likeness_of(self.similarity, same_wording=self.same_wording)

    @property
    def allowance(self) -> float:
        """How much less alike it may be than others."""
        return _SAME_WORDING if self.same_wording else 0.0


@dataclass(slots=True)
class _Partition:
    by_wording: dict[str, int] = field(default_factory=dict)
    neighbours: dict[str, Neighbours] = field(default_factory=dict)
    """By language: their vectors are of different spaces."""
    count: int = 0


class QuestionIndex:
    """Finds the single best candidate.

    Args:
        make_neighbours: Makes an empty neighbour search, one for each partition.
        max_entries: Most questions; past that those worth least are forgotten.
        clock: Time.
        rng: Chooses what is compared when room is short.
    """

    def __init__(
        self,
        make_neighbours: Callable[[], Neighbours],
        *,
        max_entries: int,
        clock: Clock,
        rng: random.Random | None = None,
    ) -> None:
        self._make_neighbours = make_neighbours
        self._max_entries = max_entries
        self._clock = clock
        self._rng = rng or random.Random()  # noqa: S311 -- a sample, not a secret
        self.clear()

    def clear(self) -> None:
        """Forgets everything."""
        self._known: dict[int, Known] = {}
        self._numbers: dict[bytes, int] = {}
        self._partitions: dict[bytes, _Partition] = {}
        self._keys = SampledKeys[int](self._rng)
        self._next = 0
        self.is_filling = True
        """Whether questions that were answered before are still being read."""

    def __len__(self) -> int:
        return len(self._known)

    def add(self, record: Record) -> None:
        """Remembers a question; another one of the same answer is replaced."""
        added = self._add(record)
        if added is not None:
            neighbours, number, vector = added
            neighbours.add(number, vector)

    async def add_all(self, records: Sequence[Record]) -> None:
        """Remembers many; lookups have their turn meanwhile, and may not find these until the end."""
        vectors: dict[Neighbours, dict[int, bytes]] = {}
        for record in records:
            added = self._add(record)
            if added is not None:
                neighbours, number, vector = added
                vectors.setdefault(neighbours, {})[number] = vector
            if len(records) > 1:
                await asyncio.sleep(0)
        for neighbours, found in vectors.items():
            # Some may be forgotten again by now.
            await neighbours.add_all({number: vector for number, vector in found.items() if number in self._known})

    def _add(self, record: Record) -> tuple[Neighbours, int, bytes] | None:
        """Files a question; returns the vector that is to be added, and where."""
        if record.ends_ms <= self._clock.wall() * 1000:
            return None
        self.remove(record.entry)
        while len(self._known) >= self._max_entries:
            self._evict()
        filed = record.filed or file(record.text, record.vector)
        number, self._next = self._next, self._next + 1
        part = self._partitions.setdefault(record.partition, _Partition())
        part.count += 1
        part.by_wording[filed.signature] = number
        self._known[number] = Known(record, filed, self._clock.monotonic())
        self._numbers[record.entry] = number
        self._keys.add(number)
        if not filed.vector:
            return None
        if filed.language not in part.neighbours:
            part.neighbours[filed.language] = self._make_neighbours()
        return part.neighbours[filed.language], number, filed.vector

    def remove(self, entry: bytes) -> None:
        """Forgets the question of an answer."""
        number = self._numbers.pop(entry, None)
        if number is None:
            return
        self._keys.discard(number)
        known = self._known.pop(number)
        part = self._partitions[known.record.partition]
        part.count -= 1
        if part.by_wording.get(known.filed.signature) == number:
            del part.by_wording[known.filed.signature]
        if known.filed.vector:
            part.neighbours[known.filed.language].remove(number)
        if not part.count:
            del self._partitions[known.record.partition]

    def remove_prefix(self, prefix: bytes) -> None:
        """Forgets the questions of all answers whose key begins with `prefix`."""
        for entry in [entry for entry in self._numbers if entry.startswith(prefix)]:
            self.remove(entry)

    def best(self, partition: bytes, question: Question, vector: bytes) -> Candidate | None:
        """Returns the best candidate: equal wording first, else the nearest neighbour.

        Args:
            partition: Where to look; nothing outside of it is ever found.
            question: What is asked.
            vector: Its embedding; nothing where its language has none.
        """
        part = self._partitions.get(partition)
        if part is None:
            return None
        number = part.by_wording.get(question.signature)
        same_wording, similarity = number is not None, 1.0
        vector = _vector_of(question, vector)
        neighbours = part.neighbours.get(question.language)
        if number is None:
            nearest = neighbours.nearest(vector) if neighbours is not None and vector else None
            if nearest is None:
                return None
            number, similarity = nearest
        elif neighbours is not None and vector:
            similarity = neighbours.similarity(number, vector)
        known = self._known[number]
        if known.record.ends_ms <= self._clock.wall() * 1000:
            self.remove(known.record.entry)
            return None
        known.used_at = self._clock.monotonic()
        return Candidate(known, similarity, same_wording)

    def _evict(self) -> None:
        sample = [(number, self._worth(self._known[number])) for number in self._keys.sample()]
        self.remove(self._known[least_worth(sample, self._clock.monotonic())].record.entry)

    def _worth(self, known: Known) -> Worth:
        return Worth(known.record.cost, len(known.record.text) * 4 + len(known.record.vector), known.used_at)


def likeness_of(similarity: float, *, same_wording: bool) -> float:
    """Returns the likeness of two questions, 0 to 1."""
    return min(1.0, similarity + _SAME_WORDING) if same_wording else similarity


def file(text: str, embedding: bytes) -> Filed:
    """Returns what a question is filed under."""
    question = question_of(text)
    return Filed(question.language, question.signature, _vector_of(question, embedding))


def _vector_of(question: Question, embedding: bytes) -> bytes:
    # What is made of the text alone need not go through the log.
    return lexical.vector_of(question) if question.language == "zh" else embedding
