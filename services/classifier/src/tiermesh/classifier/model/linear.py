"""Calibrated linear heads over the pieces of a text and over its structure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray
from tiermesh.classifier.features import Features
from tiermesh.classifier.model.grams import Grams, read_grams
from tiermesh.classifier.model.structure import encode_structure, read_structure
from tiermesh.classifier.model.weights import Floats, Weights
from tiermesh.classifier.prediction import Prediction, RightBasis

COMPLEXITY_TOLERANCE = 0.15
ANSWER_TOLERANCE = 0.7
"""Of the natural logarithm of the answer's length: right within a factor of two."""
_MAX_LOG_TOKENS = 8.4


def unit(values: Floats) -> Floats:
    """Returns values scaled to length 1; zeros stay zeros."""
    return np.asarray(values / max(1e-9, float(np.sqrt(values @ values))), np.float32)


def gram_scores(grams: Grams, idf: Floats, table: Floats) -> Floats:
    """Returns the share of each head's score that comes from the text's pieces: shape (h,)."""
    # `take` copies rows in half the time of an index.
    words = unit(grams.word_values * idf.take(grams.word_rows))
    chars = unit(grams.char_values * idf.take(grams.char_rows))
    scores = words @ table.take(grams.word_rows, axis=0) + chars @ table.take(grams.char_rows, axis=0)
    return np.asarray(scores, np.float32)


class LinearModel:
    """Applies weights to requests. Holds no state of its own; safe to use from several threads."""

    def __init__(self, weights: Weights) -> None:
        self._weights = weights
        self._tasks = len(weights.task_types)
        trained = weights.facts.get("trained_on")
        fitted = isinstance(trained, Mapping) and trained.get("outcomes", 0) > 0
        self._right_basis: RightBasis = "outcomes" if fitted else "judgement"

    @property
    def version(self) -> str:
        """Identifies the weights."""
        return self._weights.version

    @property
    def right_basis(self) -> RightBasis:
        """What the probabilities of being right rest on."""
        return self._right_basis

    def scores(self, requests: Sequence[Features]) -> Floats:
        """Returns the raw score of every head: shape (requests, h)."""
        weights = self._weights
        numbers = np.stack([read_structure(request) for request in requests])
        encoded = encode_structure(numbers, weights.thresholds)
        structural = (encoded - weights.structure_mean) * weights.structure_scale
        scores = structural @ weights.structure_table + weights.bias
        for row, request in enumerate(requests):
            grams = read_grams(request.text)
            scores[row] += gram_scores(grams, weights.idf, weights.table)
            if weights.subjects is not None:
                scores[row, -2:] = (scores[row, -2:] + weights.subjects.opinion(grams, numbers[row])) / 2
        return np.asarray(scores, np.float32)

    def predict(self, requests: Sequence[Features]) -> list[Prediction]:
        """Judges requests, about half a millisecond of one core each at 512 tokens."""
        if not requests:
            return []
        scores = self.scores(requests)
        shares = softmax(scores[:, : self._tasks], self._weights.temperature)
        slopes, intercepts = self._weights.calibration.T
        values = scores[:, self._tasks :] * slopes + intercepts
        return [self._prediction(share, value) for share, value in zip(shares, values, strict=True)]

    def _prediction(self, shares: Floats, values: Floats) -> Prediction:
        best = int(shares.argmax())
        confidence = float(shares[best])
        band = int(np.searchsorted(self._weights.confidence_bounds[:-1], confidence))
        complexity_confidence, answer_confidence = self._weights.confidence_in_band[band]
        return Prediction(
            task_type=self._weights.task_types[best],
            task_confidence=round(confidence, 4),
            complexity=_probability(values[0]),
            complexity_confidence=round(float(complexity_confidence), 4),
            answer_tokens=max(1, round(float(np.exp(min(_MAX_LOG_TOKENS, max(0.0, float(values[1]))))))),
            answer_tokens_confidence=round(float(answer_confidence), 4),
            small_right=_probability(values[2]),
            large_right=_probability(values[3]),
            right_basis=self._right_basis,
        )


def softmax(scores: Floats, temperature: float) -> Floats:
    """Returns shares that sum to 1 in each row: shape (n, classes)."""
    shifted = np.exp((scores - scores.max(axis=1, keepdims=True)) / temperature)
    return np.asarray(shifted / shifted.sum(axis=1, keepdims=True), np.float32)


def _probability(value: NDArray[np.float32] | float) -> float:
    return round(min(0.99, max(0.01, float(value))), 4)
