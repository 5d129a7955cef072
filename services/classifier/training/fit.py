"""Ridge regression on sparse rows, for several targets at once."""

from __future__ import annotations

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

_TOLERANCE = 2e-4
_MOST_STEPS = 300


def fit_ridge(
    rows: sp.csr_matrix, targets: NDArray[np.float64], strength: float
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Fits linear heads by conjugate gradients in the space of the rows.

    Minimises ||X w + b - y||^2 + strength ||w||^2 for each target; b is not penalised.

    Args:
        rows: X, shape (n, d).
        targets: One column for each head, shape (n, h).
        strength: Of the penalty, above 0.

    Returns:
        The weights, shape (d, h), and the intercepts, shape (h,).
    """
    mean = np.asarray(rows.mean(axis=0)).ravel()
    centre = targets.mean(axis=0)
    wanted = targets - centre

    def times(dual: NDArray[np.float64]) -> NDArray[np.float64]:
        primal = rows.T @ dual - np.outer(mean, dual.sum(axis=0))
        return np.asarray(rows @ primal - mean @ primal + strength * dual)

    dual = np.zeros_like(wanted)
    rest = wanted.copy()
    direction = rest.copy()
    power = (rest * rest).sum(axis=0)
    enough = _TOLERANCE**2 * np.maximum(power, 1e-12)
    for _ in range(_MOST_STEPS):
        if (power <= enough).all():
            break
        image = times(direction)
        step = power / np.maximum((direction * image).sum(axis=0), 1e-30)
        dual += step * direction
        rest -= step * image
        before, power = power, (rest * rest).sum(axis=0)
        direction = rest + power / np.maximum(before, 1e-30) * direction
    weights = rows.T @ dual - np.outer(mean, dual.sum(axis=0))
    return weights, centre - mean @ weights
