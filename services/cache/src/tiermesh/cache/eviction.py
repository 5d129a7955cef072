"""What is forgotten first where room is short: what saves least for the room it takes.

As Redis does, the worst of a few chosen at random goes: near enough to the worst of all, at a cost
that does not grow with the number of entries.
"""

from __future__ import annotations

import math
import random
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Generic, TypeVar

_K = TypeVar("_K")
SAMPLE = 16
"""Entries that are compared."""
HALF_LIFE_S = 3600.0
"""Time without use after which an entry is worth half."""


@dataclass(frozen=True, slots=True)
class Worth:
    """What is known about an entry."""

    cost: float
    """What a hit saves, in tokens."""
    size_bytes: int
    used_at: float
    """When it was last used, in seconds on a monotonic clock."""

    def at(self, now: float) -> float:
        """Returns the saving per byte, halved for every `HALF_LIFE_S` without use."""
        return (1 + self.cost) / max(1, self.size_bytes) * math.exp2(-max(0.0, now - self.used_at) / HALF_LIFE_S)


def least_worth(sample: Iterable[tuple[_K, Worth]], now: float) -> _K:
    """Returns the key of the entry to forget.

    Args:
        sample: Some entries, at least one.
        now: Monotonic time, in seconds.
    """
    return min(sample, key=lambda entry: entry[1].at(now))[0]


class SampledKeys(Generic[_K]):
    """Keys of which a few can be taken at random, at the same cost however many there are."""

    def __init__(self, rng: random.Random) -> None:
        self._rng = rng
        self._keys: list[_K] = []
        self._places: dict[_K, int] = {}

    def add(self, key: _K) -> None:
        """Adds a key that is not there yet."""
        self._places[key] = len(self._keys)
        self._keys.append(key)

    def discard(self, key: _K) -> None:
        """Removes a key; the last one takes its place."""
        place = self._places.pop(key)
        last = self._keys.pop()
        if last != key:
            self._keys[place] = last
            self._places[last] = place

    def sample(self) -> list[_K]:
        """Returns up to `SAMPLE` different keys."""
        return self._rng.sample(self._keys, min(SAMPLE, len(self._keys)))
