"""The real neighbour search, across the size at which it becomes a graph."""

import numpy as np
import pytest
from tiermesh.cache.adapters.usearch import DIMENSIONS, UsearchNeighbours


@pytest.fixture(scope="module")
def vectors():
    made = np.random.default_rng(1).standard_normal((420, DIMENSIONS)).astype(np.float32)
    made /= np.linalg.norm(made, axis=1, keepdims=True)
    return [row.astype(np.float16).tobytes() for row in made]


@pytest.mark.parametrize("count", [1, 256, 257, 300, 420])
def test_each_is_its_own_nearest_whatever_their_number(vectors, count):
    neighbours = UsearchNeighbours()
    for number in range(count):
        neighbours.add(number, vectors[number])
    for number in {0, count // 2, count - 1}:
        found = neighbours.nearest(vectors[number])
        assert found is not None
        assert found[0] == number
        assert found[1] == pytest.approx(1, abs=0.01)
        assert neighbours.similarity(number, vectors[number]) == pytest.approx(1, abs=0.01)


@pytest.mark.parametrize("count", [10, 300, 420])
def test_what_was_removed_is_not_found(vectors, count):
    neighbours = UsearchNeighbours()
    for number in range(count):
        neighbours.add(number, vectors[number])
    for number in (0, count - 1):
        neighbours.remove(number)
        found = neighbours.nearest(vectors[number])
        assert found is not None
        assert found[0] != number


def test_nothing_is_nearest_to_nothing(vectors):
    neighbours = UsearchNeighbours()
    assert neighbours.nearest(vectors[0]) is None
    neighbours.add(7, vectors[0])
    neighbours.remove(7)
    assert neighbours.nearest(vectors[0]) is None
