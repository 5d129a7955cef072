"""A second opinion on how likely each model is right, learnt from outcomes that say what their prompts are about.

Whether one answer is right is close to the toss of a coin; how often answers about one subject are right is far quieter, and
which of two models a subject suits cannot be added up from its words one by one. So the pieces of a text are first asked what
it is about and what became of prompts like it, by naive Bayes: sums of log-likelihoods over the pieces that occur.
A kernel regression then goes from these few numbers, and from structure, to both probabilities.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from tiermesh.classifier.model.grams import ROWS, Grams

Floats = NDArray[np.float32]

OUTCOMES = 4
"""Neither model right, only the large one, only the small one, both."""
SHARED_BITS = 2
"""Neighbouring rows of pieces share one row here: a table that stays in the processor's own cache is worth more than the little
that is lost, since each of some thousand pieces of a text would be waited for otherwise."""
SHARED_ROWS = ROWS >> SHARED_BITS
_SHARPNESS = 3.0
"""Pieces of one text are far from independent, so sums over n of them are worth about as much as 3 sqrt(n) of them would be."""
_FAR = 3.0
"""Numbers further from their mean than this many standard deviations count as that far."""


@dataclass(frozen=True, slots=True)
class Subjects:
    """What was learnt. `s` subjects, `d` numbers, `m` landmarks."""

    table: NDArray[np.int8]
    """Log-likelihood of each row of pieces under each subject and each outcome, in steps: (SHARED_ROWS, s + OUTCOMES)."""
    step: Floats
    """Size of one step in the table: (1,)."""
    prior: Floats
    """Log-probability of each subject and each outcome: (s + OUTCOMES,)."""
    right: Floats
    """Share of right answers of the small and the large model in each subject: (s, 2)."""
    mean: Floats
    spread: Floats
    """Of the numbers in training: (d,)."""
    landmarks: Floats
    """Scaled numbers of some training prompts: (m, d)."""
    width: Floats
    """Of the Gaussian kernel: exp(-width * squared distance): (1,)."""
    weights: Floats
    """Of each landmark for each model: (m, 2)."""
    bias: Floats
    """(2,)."""

    def opinion(self, grams: Grams, structure: Floats) -> Floats:
        """Returns what is expected of the small and the large model for one text: shape (2,)."""
        rows = np.concatenate([grams.word_rows, grams.char_rows]) >> SHARED_BITS
        # A product is quicker than a sum of small integers, and as exact.
        sums = np.ones(len(rows), np.float32) @ self.table.take(rows, axis=0).astype(np.float32) * self.step
        numbers = self.numbers(sums[None], np.array([len(rows)]), structure[None])
        return np.asarray(self.expected(numbers)[0], np.float32)

    def numbers(self, sums: Floats, pieces: NDArray[np.intp], structure: Floats) -> Floats:
        """Returns the numbers that the regression sees, one text a row: shape (n, d).

        Args:
            sums: Of the log-likelihoods of the pieces that occur: (n, s + OUTCOMES).
            pieces: How many occur: (n,).
            structure: As of `read_structure`: (n, structural numbers).
        """
        worth = np.sqrt(np.maximum(1, pieces))[:, None]
        evidence = (sums + self.prior) / worth
        subjects, outcomes = evidence[:, :-OUTCOMES], evidence[:, -OUTCOMES:]
        about = np.exp(_SHARPNESS * (subjects - subjects.max(axis=1, keepdims=True)))
        about /= about.sum(axis=1, keepdims=True)
        right = about @ self.right
        doubt = -(about * np.log(about + 1e-9)).sum(axis=1)
        columns = (
            structure,
            right,
            right[:, 1] - right[:, 0],
            about.max(axis=1),
            doubt,
            outcomes - outcomes.mean(axis=1, keepdims=True),
        )
        return np.column_stack(columns).astype(np.float32)

    def scaled(self, numbers: Floats) -> Floats:
        """Returns numbers in standard deviations from their mean, none very far: shape (n, d)."""
        return np.asarray(np.clip((numbers - self.mean) / self.spread, -_FAR, _FAR), np.float32)

    def expected(self, numbers: Floats) -> Floats:
        """Returns what is expected of the small and the large model: shape (n, 2)."""
        near = kernel(self.scaled(numbers), self.landmarks, float(self.width[0]))
        return np.asarray(near @ self.weights + self.bias, np.float32)


def kernel(rows: Floats, landmarks: Floats, width: float) -> Floats:
    """Returns how near rows are to landmarks, 0 to 1: shape (n, m)."""
    squares = (rows**2).sum(axis=1)[:, None] + (landmarks**2).sum(axis=1) - 2 * rows @ landmarks.T
    return np.asarray(np.exp(-width * np.maximum(0, squares)), np.float32)
