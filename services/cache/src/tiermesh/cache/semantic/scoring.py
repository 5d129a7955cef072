"""What the semantic tier sees in a pair of questions, whatever the threshold is."""

from __future__ import annotations

import struct

from tiermesh.cache.ports import Embedder
from tiermesh.cache.semantic import lexical
from tiermesh.cache.semantic.guards import refusal_of
from tiermesh.cache.semantic.index import likeness_of
from tiermesh.cache.semantic.tier import comparable
from tiermesh.cache.semantic.tune import Scored


async def score_pair(stored: str, asked: str, *, same: bool, embedder: Embedder) -> Scored:
    """Returns likeness and guards' verdict of one labelled pair.

    Args:
        stored: The question that was answered.
        asked: The question that is asked.
        same: Whether a person says that both ask the same.
        embedder: Turns texts into vectors.
    """
    one, other = comparable(stored), comparable(asked)
    if one is None or other is None:
        return Scored(0.0, True, same)
    if one.language == other.language == "zh":
        vectors = [lexical.vector_of(question) for question in (one, other)]
    else:
        vectors = [await embedder.embed(question.text) for question in (one, other)]
    if not all(vectors):
        return Scored(0.0, True, same)
    a, b = (struct.unpack(f"{len(vector) // 2}e", vector) for vector in vectors)
    cosine = max(0.0, sum(x * y for x, y in zip(a, b, strict=True)))
    refused = refusal_of(other, one, likeness=cosine) is not None
    return Scored(likeness_of(cosine, same_wording=one.signature == other.signature), refused, same)
