"""Typical requests: sampled by cluster, without near-duplicates. Needs `tiermesh-outcomes[distill]`.

Requests are vectors of hashed character n-grams, which need no words and so do for Chinese and English alike. Every
cluster gives examples in proportion to the square root of its size, so that what is asked often is there often but what
is asked seldom is there too; within a cluster those nearest to its centre come first.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from sklearn.cluster import MiniBatchKMeans
from sklearn.feature_extraction.text import HashingVectorizer
from threadpoolctl import threadpool_limits
from tiermesh.outcomes.distill.sampled import Chosen, Sampled

SAME = 0.9
"""Likeness (cosine of the vectors) from which one of two requests is enough."""
_FEATURES = 2**14
_MOST_CLUSTERS = 200


def sample(texts: Sequence[str], *, count: int, clusters: int = 0, same: float = SAME, seed: int = 0) -> Sampled:
    """Chooses typical texts.

    Args:
        texts: What was asked.
        count: Most that are chosen.
        clusters: Number of clusters; 0 for the square root of half the number of texts.
        same: Likeness from which one of two is enough.
        seed: Of the clustering, which is the same for the same texts and seed.
    """
    if not texts:
        return Sampled((), (), 0)
    vectors = _vectors(texts)
    wanted = clusters or max(1, min(_MOST_CLUSTERS, round(math.sqrt(len(texts) / 2))))
    wanted = min(wanted, len(texts))
    model = MiniBatchKMeans(n_clusters=wanted, random_state=seed, n_init=3, batch_size=1024)
    # One thread: the result must not depend on how many cores there are, and threads that wait for each other on a
    # busy machine take a hundred times as long.
    with threadpool_limits(limits=1):
        labels = model.fit_predict(vectors)
    nearness = _nearness(vectors, labels, model.cluster_centers_)
    members = [[int(n) for n in np.flatnonzero(labels == cluster)] for cluster in range(wanted)]
    alike = 0
    lines: list[list[int]] = []
    for group in members:
        ordered = sorted(group, key=lambda n: (-nearness[n], n))
        distinct = _distinct(vectors, ordered, same)
        alike += len(ordered) - len(distinct)
        lines.append(distinct)
    shares = _shares([len(line) for line in lines], count)
    chosen = tuple(
        Chosen(index, cluster)
        for cluster, (line, share) in enumerate(zip(lines, shares, strict=True))
        for index in line[:share]
    )
    return Sampled(chosen, tuple(len(group) for group in members), alike)


def _vectors(texts: Sequence[str]) -> Any:
    """Returns one sparse row of length 1 a text."""
    grams = HashingVectorizer(analyzer="char", ngram_range=(2, 4), n_features=_FEATURES, alternate_sign=False)
    return grams.transform(texts)


def _nearness(vectors: Any, labels: Any, centres: Any) -> Any:
    """Returns the cosine of each row with its cluster's centre."""
    lengths = np.maximum(np.linalg.norm(centres, axis=1, keepdims=True), 1e-12)
    return np.asarray(vectors.multiply((centres / lengths)[labels]).sum(axis=1)).ravel()


def _distinct(vectors: Any, ordered: Sequence[int], same: float) -> list[int]:
    """Returns those that are not like one that comes before them."""
    kept: list[int] = []
    for index in ordered:
        likeness = vectors[kept] @ vectors[index].T if kept else None
        if likeness is None or likeness.max() < same:
            kept.append(index)
    return kept


def _shares(sizes: Sequence[int], count: int) -> list[int]:
    """Returns how many each cluster gives: by the square root of its size, at most all, and in sum at most `count`."""
    shares = [0] * len(sizes)
    left = min(count, sum(sizes))
    while left > 0:
        open_clusters = [n for n, size in enumerate(sizes) if shares[n] < size]
        # Whoever is furthest behind what is due to it; of equals the first.
        n = min(open_clusters, key=lambda n: ((shares[n] + 1) / math.sqrt(sizes[n]), n))
        shares[n] += 1
        left -= 1
    return shares
