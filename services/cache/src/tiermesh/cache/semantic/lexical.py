"""Vectors of what a Chinese question says, without a model.

The embedder has tokens for next to no Chinese, so that opposite questions would be alike to it. Characters
and pairs of characters of the content words are hashed into a vector instead (K. Weinberger et al.,
"Feature hashing for large scale multitask learning", 2009): questions with the same content in
other frames are 1, each character that differs costs.
"""

from __future__ import annotations

import hashlib
import math
import struct
from collections.abc import Iterator
from functools import lru_cache
from itertools import pairwise

from tiermesh.cache.semantic.question import Question

DIMENSIONS = 384
"""As many as the embedder's, so that one neighbour search does for both."""


def vector_of(question: Question) -> bytes:
    """Returns the normalised vector of a question as half-precision floats; empty where it has no content."""
    values = [0.0] * DIMENSIONS
    for feature in _features(question):
        place, sign = _hashed(feature)
        values[place] += sign
    norm = math.sqrt(sum(value * value for value in values))
    return struct.pack(f"{DIMENSIONS}e", *(value / norm for value in values)) if norm else b""


def _features(question: Question) -> Iterator[str]:
    for token in question.content:
        yield from token
        yield from map("".join, pairwise(token))


@lru_cache(maxsize=65_536)
def _hashed(feature: str) -> tuple[int, float]:
    digest = hashlib.blake2b(feature.encode(), digest_size=3).digest()
    return int.from_bytes(digest[:2], "big") % DIMENSIONS, 1.0 if digest[2] & 1 else -1.0
