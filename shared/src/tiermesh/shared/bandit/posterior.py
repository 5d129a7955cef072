"""What is believed of one tier: Bayesian linear regression on how much better or worse it does than was expected.

The tier's answer to a request with context x is right with about `prior + w'x`, where `prior` is what the classifier says
and w has the prior N(0, sigma^2 / strength). With n answers seen, w is N(A^-1 b, sigma^2 A^-1) with
A = strength I + sum x x' and b = sum x (y - prior): the model under LinUCB (Li et al. 2010) and under linear Thompson
sampling (Agrawal and Goyal 2013). With nothing seen it says what the classifier says, and is as unsure as the prior.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from tiermesh.shared.bandit.context import NAMES, Vector

NOISE = 0.5
"""Standard deviation of a right-or-wrong answer around its probability, at most."""


@dataclass(frozen=True, slots=True)
class Belief:
    """What is believed of a tier's answer to one request."""

    right: float
    """Probability that it is right, 0 to 1."""
    doubt: float
    """Standard deviation of that probability."""


@dataclass(frozen=True, slots=True)
class Posterior:
    """What is believed of a tier. Immutable: more answers make a new one."""

    precision: NDArray[np.float64]
    """A, (d, d)."""
    response: Vector
    """b, (d,)."""
    count: int = 0
    """Answers seen."""
    weights: Vector | None = None
    covariance: NDArray[np.float64] | None = None

    @classmethod
    def fresh(cls, strength: float) -> Posterior:
        """Returns the belief before anything is seen; `strength` in answers that say the prior is right."""
        size = len(NAMES)
        return cls(np.eye(size) * strength, np.zeros(size)).solved()

    def seeing(self, contexts: NDArray[np.float64], surprises: Vector) -> Posterior:
        """Returns the belief after more answers.

        Args:
            contexts: One row for each answer: (n, d).
            surprises: How good each answer was (0 to 1) less what the prior had said of it: (n,).
        """
        if not len(surprises):
            return self
        return Posterior(
            self.precision + contexts.T @ contexts,
            self.response + contexts.T @ surprises,
            self.count + len(surprises),
        ).solved()

    def belief(self, context: Vector, prior: float) -> Belief:
        """Returns what is believed of an answer."""
        assert self.weights is not None
        assert self.covariance is not None
        right = min(1.0, max(0.0, prior + float(context @ self.weights)))
        return Belief(right, NOISE * math.sqrt(max(0.0, float(context @ self.covariance @ context))))

    def solved(self) -> Posterior:
        """Returns the same belief, ready to be asked."""
        covariance = np.asarray(np.linalg.inv(self.precision), np.float64)
        return Posterior(self.precision, self.response, self.count, covariance @ self.response, covariance)
