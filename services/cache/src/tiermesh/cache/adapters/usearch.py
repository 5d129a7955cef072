"""Neighbours by usearch: exact where there are few, HNSW where there are many."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray
from usearch.index import Index

DIMENSIONS = 384
_MOVED = 2
_AT_ONCE = 8
"""Vectors that are added without a thread, in a millisecond or two: as they come once a replica has caught up."""
_FEW = 256
"""Vectors up to which comparing with all is faster than a graph, and finds the very nearest."""
_SEARCHED = 64
"""Candidates that adding and searching look at: of 40,000 clustered vectors all of 2,000 nearest ones are found."""


class UsearchNeighbours:
    """`Neighbours` of normalised half-precision vectors, for one partition.

    While many are added, which a thread does, the graph answers nobody: it must not be read and changed at once.
    """

    def __init__(self) -> None:
        self._few: dict[int, NDArray[np.float32]] = {}
        self._matrix: tuple[list[int], NDArray[np.float32]] | None = None
        self._graph: Index | None = None
        self._is_busy = False
        self._to_remove: list[int] = []
        """Of those in the graph, while it is busy."""

    def add(self, number: int, vector: bytes) -> None:
        """Adds a normalised vector of half-precision floats."""
        if self._is_busy or (self._graph is None and len(self._few) < _FEW):
            self._few[number] = _half(vector).astype(np.float32)
            self._matrix = None
            return
        graph = self._open()
        graph.add(number, _half(vector), threads=1)
        # The others follow a few at a time: all at once would hold up whoever asks meanwhile.
        for moved in list(self._few)[:_MOVED]:
            graph.add(moved, self._few.pop(moved).astype(np.float16), threads=1)
            self._matrix = None

    async def add_all(self, vectors: Mapping[int, bytes]) -> None:
        """Adds many, by their numbers; not twice at a time. Lookups go on, and find only a few of the others meanwhile."""
        if len(vectors) <= _AT_ONCE or (self._graph is None and len(self._few) + len(vectors) <= _FEW):
            for number, vector in vectors.items():
                self.add(number, vector)
            return
        graph, rows = self._open(), np.stack([_half(vector) for vector in vectors.values()])
        # Not given back where this is cancelled: the thread goes on.
        self._is_busy = True
        await asyncio.to_thread(graph.add, np.fromiter(vectors, dtype=np.uint64), rows, threads=1)
        self._is_busy = False
        while self._to_remove:
            graph.remove(self._to_remove.pop())

    def remove(self, number: int) -> None:
        """Removes a vector; one that is not there is no error."""
        if self._few.pop(number, None) is not None:
            self._matrix = None
        elif self._is_busy:
            self._to_remove.append(number)
        elif self._graph is not None:
            self._graph.remove(number)

    def nearest(self, vector: bytes) -> tuple[int, float] | None:
        """Returns the number and cosine of the nearest one."""
        found: list[tuple[int, float]] = []
        if self._graph is not None and not self._is_busy:
            matches = self._graph.search(_half(vector), 1, threads=1)
            if len(matches):
                number = int(matches.keys[0])
                found.append((number, self.similarity(number, vector)))
        if self._few:
            if self._matrix is None:
                self._matrix = (list(self._few), np.stack(list(self._few.values())))
            numbers, matrix = self._matrix
            cosines = matrix @ _half(vector).astype(np.float32)
            best = int(cosines.argmax())
            found.append((numbers[best], float(cosines[best])))
        return max(found, key=lambda pair: pair[1]) if found else None

    def similarity(self, number: int, vector: bytes) -> float:
        """Returns the cosine of one of them."""
        kept = self._few.get(number)
        if kept is None:
            found = self._graph.get(number) if self._graph is not None and not self._is_busy else None
            if found is None:
                return 0.0
            kept = np.asarray(found, dtype=np.float32).reshape(-1)
        return float(kept @ _half(vector).astype(np.float32))

    def _open(self) -> Index:
        if self._graph is None:
            self._graph = Index(
                ndim=DIMENSIONS,
                metric="ip",
                dtype="f16",
                connectivity=16,
                expansion_add=_SEARCHED,
                expansion_search=_SEARCHED,
            )
        return self._graph


def _half(vector: bytes) -> NDArray[np.float16]:
    return np.frombuffer(vector, dtype=np.float16)
