"""Neighbour search: few and many, one at a time and many at once."""

import asyncio

import numpy as np
import pytest
from tiermesh.cache.adapters.usearch import DIMENSIONS, UsearchNeighbours

MANY = 600


def vectors(count, *, seed=1):
    rows = np.random.default_rng(seed).standard_normal((count, DIMENSIONS)).astype(np.float32)
    return [(row / np.linalg.norm(row)).astype(np.float16).tobytes() for row in rows]


@pytest.fixture
def neighbours():
    return UsearchNeighbours()


def found(neighbours, known):
    """How many are their own nearest neighbour."""
    return sum(neighbours.nearest(vector) is not None and neighbours.nearest(vector)[0] == n for n, vector in known)


@pytest.mark.parametrize("count", [5, 200, MANY])
async def test_what_is_added_together_is_found_like_what_is_added_singly(neighbours, count):
    known = list(enumerate(vectors(count)))
    await neighbours.add_all(dict(known))
    assert found(neighbours, known) == count
    (more,) = vectors(1, seed=2)
    neighbours.add(count, more)
    assert neighbours.nearest(more)[0] == count
    assert neighbours.similarity(count, more) == pytest.approx(1, abs=0.01)
    neighbours.remove(3)
    assert neighbours.nearest(known[3][1])[0] != 3


async def test_while_many_are_added_lookups_go_on_with_the_others(neighbours):
    first, second = vectors(MANY), vectors(MANY, seed=2)
    await neighbours.add_all(dict(enumerate(first)))
    adding = asyncio.create_task(neighbours.add_all({MANY + n: vector for n, vector in enumerate(second)}))
    await asyncio.sleep(0)
    # The thread's end is heard of only where the loop has its turn again.
    assert neighbours.nearest(first[0]) is None
    assert neighbours.similarity(0, first[0]) == 0
    (live,) = vectors(1, seed=3)
    neighbours.add(9_999, live)
    assert neighbours.nearest(live)[0] == 9_999
    neighbours.remove(7)
    neighbours.remove(MANY + 7)
    async with asyncio.timeout(60):
        await adding
    for gone in (first[7], second[7]):
        assert neighbours.nearest(gone)[0] not in {7, MANY + 7}
    kept = [(n, v) for n, v in enumerate([*first, *second]) if n not in {7, MANY + 7}]
    assert found(neighbours, kept) == len(kept)
    assert neighbours.nearest(live)[0] == 9_999


async def test_one_that_is_not_there_may_be_removed(neighbours):
    neighbours.remove(1)
    await neighbours.add_all(dict(enumerate(vectors(MANY))))
    neighbours.remove(MANY + 1)
    assert neighbours.nearest(vectors(1)[0])[0] == 0
