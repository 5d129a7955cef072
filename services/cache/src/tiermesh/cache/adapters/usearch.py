"""Neighbours by usearch: exact where there are few, HNSW where there are many."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from usearch.index import Index

DIMENSIONS = 384
_MOVED = 2
_FEW = 256
"""Vectors up to which comparing with all is faster than a graph, and finds the very nearest."""


class UsearchNeighbours:
    """`Neighbours` of normalised half-precision vectors, for one partition."""

    def __init__(self) -> None:
        self._few: dict[int, NDArray[np.float32]] = {}
        self._matrix: tuple[list[int], NDArray[np.float32]] | None = None
        self._graph: Index | None = None

    def add(self, number: int, vector: bytes) -> None:
        """Adds a normalised vector of half-precision floats."""
        if self._graph is None and len(self._few) < _FEW:
            self._few[number] = _half(vector).astype(np.float32)
            self._matrix = None
            return
        if self._graph is None:
            self._graph = Index(ndim=DIMENSIONS, metric="ip", dtype="f16", connectivity=16, expansion_search=64)
        self._graph.add(number, _half(vector), threads=1)
        # The others follow a few at a time: all at once would hold up whoever asks meanwhile.
        for moved in list(self._few)[:_MOVED]:
            self._graph.add(moved, self._few.pop(moved).astype(np.float16), threads=1)
            self._matrix = None

    def remove(self, number: int) -> None:
        """Removes a vector."""
        if self._few.pop(number, None) is not None:
            self._matrix = None
        elif self._graph is not None:
            self._graph.remove(number)

    def nearest(self, vector: bytes) -> tuple[int, float] | None:
        """Returns the number and cosine of the nearest one."""
        found: list[tuple[int, float]] = []
        if self._graph is not None:
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
            found = self._graph.get(number) if self._graph is not None else None
            if found is None:
                return 0.0
            kept = np.asarray(found, dtype=np.float32).reshape(-1)
        return float(kept @ _half(vector).astype(np.float32))


def _half(vector: bytes) -> NDArray[np.float16]:
    return np.frombuffer(vector, dtype=np.float16)
