"""Fits the second opinion of `tiermesh.classifier.model.subjects` to outcomes that say what their prompts are about.

What naive Bayes says of the prompts that it was fitted to is too good to learn from. So the regression is fitted to what it
says of each fifth when fitted to the other four, and how it is held back is chosen on the same folds: all within
the prompts that are given, so that whoever holds some back measures on prompts that had no part in any choice.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import product

import numpy as np
import scipy.linalg
import scipy.sparse as sp
from design import Texts
from numpy.typing import NDArray
from tiermesh.classifier.model.subjects import OUTCOMES, SHARED_BITS, SHARED_ROWS, Subjects, kernel

Floats = NDArray[np.float64]
Rows = NDArray[np.intp]

FOLDS = 5
LANDMARKS = 600
WIDTHS = (0.02, 0.04)
STRENGTHS = (3.0, 10.0, 30.0)
TOPIC_PRIOR = 20.0
"""How many answers the mean over all topics is worth beside a topic's own."""
_SUBJECT_SMOOTHING, _OUTCOME_SMOOTHING = 0.1, 1.0
_SPARE = 1e-3
"""Added to the landmarks' kernel, for landmarks that are alike."""


def fit_subjects(texts: Texts, right: Floats, topics: Sequence[str], seed: int = 0) -> Subjects:
    """Fits everything.

    Args:
        texts: Of the prompts.
        right: Whether the small and the large model were right, 0 to 1: (n, 2).
        topics: What each prompt is about; at least two different ones.
        seed: Of the folds and the landmarks.
    """
    names, about = np.unique(np.array(topics), return_inverse=True)
    present = _pieces(texts)
    dice = np.random.default_rng(seed)
    folds = dice.permutation(len(about)) % FOLDS
    numbers: NDArray[np.float32] | None = None
    for fold in range(FOLDS):
        inside, outside = np.flatnonzero(folds != fold), np.flatnonzero(folds == fold)
        bayes = _bayes(present[inside], right[inside], about[inside], len(names))
        said = _read(bayes, present[outside], texts.structure[outside])
        numbers = np.zeros((len(about), said.shape[1]), np.float32) if numbers is None else numbers
        numbers[outside] = said
    assert numbers is not None
    bayes = replace(
        _bayes(present, right, about, len(names)),
        mean=numbers.mean(axis=0),
        spread=np.maximum(numbers.std(axis=0), 1e-6),
    )
    rows = bayes.scaled(numbers)
    landmarks = rows[dice.permutation(len(rows))[:LANDMARKS]]
    width, strength = _choose(rows, landmarks, right, folds)
    moments = _moments(kernel(rows, landmarks, width), right)
    weights, bias = moments.solve(kernel(landmarks, landmarks, width), strength)
    return replace(
        bayes,
        landmarks=landmarks,
        width=np.array([width], np.float32),
        weights=weights.astype(np.float32),
        bias=bias.astype(np.float32),
    )


def opinions(subjects: Subjects, texts: Texts) -> Floats:
    """Returns what is expected of the small and the large model for each text: (n, 2)."""
    present = _pieces(texts)
    return np.asarray(subjects.expected(_read(subjects, present, texts.structure)), np.float64)


def _pieces(texts: Texts) -> sp.csr_matrix:
    """Returns how many of each text's pieces there are in each row of the table: (n, SHARED_ROWS)."""
    rows = texts.grams.indices >> SHARED_BITS
    shape = (texts.grams.shape[0], SHARED_ROWS)
    # Two pieces in one row stay two entries: they count twice, as they do when the classifier runs.
    return sp.csr_matrix((np.ones(len(rows), np.float32), rows, texts.grams.indptr), shape)


def gap_recovered(scores: Floats, gains: Floats) -> float:
    """Returns the share of the gap between both models that a ranking recovers, over all shares of strong calls."""
    gathered = np.concatenate([[0.0], np.cumsum(gains[np.argsort(-scores, kind="stable")])])
    return float(np.trapezoid(gathered) / len(gains) / gathered[-1]) if gathered[-1] > 0 else 0.5


def topic_means(right: Floats, about: NDArray[np.intp], count: int) -> Floats:
    """Returns how often answers to each topic are right, drawn to the mean of all where there are few: (topics, models)."""
    sizes = np.bincount(about, minlength=count)[:, None]
    sums = np.stack([np.bincount(about, weights=column, minlength=count) for column in right.T], axis=1)
    return np.asarray((sums + TOPIC_PRIOR * right.mean(axis=0)) / (sizes + TOPIC_PRIOR))


def _bayes(present: sp.csr_matrix, right: Floats, about: NDArray[np.intp], topics: int) -> Subjects:
    """Returns naive Bayes alone; what the regression needs is still empty."""
    came = (2 * (right[:, 0] >= 0.5) + (right[:, 1] >= 0.5)).astype(np.intp)
    parts = [
        _likelihoods(present, about, topics, _SUBJECT_SMOOTHING),
        _likelihoods(present, came, OUTCOMES, _OUTCOME_SMOOTHING),
    ]
    table = np.concatenate([part for part, _ in parts], axis=1)
    step = float(np.abs(table).max()) / 127
    none = np.zeros(0, np.float32)
    return Subjects(
        table=np.ascontiguousarray(np.round(table / step), np.int8),
        step=np.array([step], np.float32),
        prior=np.concatenate([prior for _, prior in parts]).astype(np.float32),
        right=topic_means(right, about, topics).astype(np.float32),
        mean=none,
        spread=none,
        landmarks=none,
        width=none,
        weights=none,
        bias=none,
    )


def _likelihoods(
    present: sp.csr_matrix, kinds: NDArray[np.intp], count: int, smoothing: float
) -> tuple[Floats, Floats]:
    """Returns log-likelihoods of pieces under each kind, less their mean over all kinds, which tells nothing; and the prior."""
    members = sp.csr_matrix((np.ones(len(kinds), np.float32), (kinds, np.arange(len(kinds)))), (count, len(kinds)))
    seen = np.asarray((members @ present).todense(), np.float64) + smoothing
    logs = np.log(seen / seen.sum(axis=1, keepdims=True)).T
    prior = np.log((np.bincount(kinds, minlength=count) + 0.5) / (len(kinds) + 0.5 * count))
    return logs - logs.mean(axis=1, keepdims=True), prior


def _read(bayes: Subjects, present: sp.csr_matrix, structure: NDArray[np.float32]) -> NDArray[np.float32]:
    sums = (present @ bayes.table.astype(np.float32)) * bayes.step
    return bayes.numbers(sums, np.diff(present.indptr), structure)


def _choose(
    rows: NDArray[np.float32], landmarks: NDArray[np.float32], right: Floats, folds: Rows
) -> tuple[float, float]:
    """Returns the width and strength that rank prompts best which the regression was not fitted to."""
    gains = right[:, 1] - right[:, 0]
    best: dict[tuple[float, float], float] = {}
    for width in WIDTHS:
        near, among = kernel(rows, landmarks, width), kernel(landmarks, landmarks, width)
        of_fold = [_moments(near[folds == fold], right[folds == fold]) for fold in range(FOLDS)]
        everything = sum(of_fold[1:], of_fold[0])
        for strength in STRENGTHS:
            said = np.zeros_like(right)
            for fold, own in enumerate(of_fold):
                weights, bias = (everything - own).solve(among, strength)
                said[folds == fold] = near[folds == fold] @ weights + bias
            best[width, strength] = gap_recovered(said[:, 1] - said[:, 0], gains)
    return max(product(WIDTHS, STRENGTHS), key=lambda pair: best[pair])


@dataclass(frozen=True, slots=True)
class _Moments:
    """All that ridge regression asks of some rows. Those of two sets of rows add up, and can be taken away again."""

    square: Floats
    near_right: Floats
    near: Floats
    right: Floats
    count: int

    def __add__(self, other: _Moments) -> _Moments:
        return _Moments(
            self.square + other.square,
            self.near_right + other.near_right,
            self.near + other.near,
            self.right + other.right,
            self.count + other.count,
        )

    def __sub__(self, other: _Moments) -> _Moments:
        return _Moments(
            self.square - other.square,
            self.near_right - other.near_right,
            self.near - other.near,
            self.right - other.right,
            self.count - other.count,
        )

    def solve(self, among: NDArray[np.float32], strength: float) -> tuple[Floats, Floats]:
        """Fits ridge regression in the span of the landmarks (Williams and Seeger, *Using the Nyström Method*, NIPS 2000)."""
        bias = self.right / self.count
        held = strength * (among.astype(np.float64) + _SPARE * np.eye(len(among)))
        wanted = self.near_right - np.outer(self.near, bias)
        return np.asarray(scipy.linalg.solve(self.square + held, wanted, assume_a="pos")), bias


def _moments(near: NDArray[np.float32], right: Floats) -> _Moments:
    exact = near.astype(np.float64)
    return _Moments(exact.T @ exact, exact.T @ right, exact.sum(axis=0), right.sum(axis=0), len(right))
