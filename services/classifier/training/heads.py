"""Linear heads together with the scaling they were fitted under."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from design import Scaling, Texts, learn_scaling, weigh
from fit import fit_ridge
from numpy.typing import NDArray

OUTCOME_STRENGTH, OUTCOME_STRUCTURE_WEIGHT, OUTCOME_CHAR_WEIGHT = 10.0, 0.2, 0.5
"""For heads fitted to outcomes of single prompts, which are coin tosses: held back far more than heads for clean labels."""


@dataclass(frozen=True, slots=True)
class Heads:
    """Fitted heads, ready to score any texts."""

    scaling: Scaling
    char_weight: float
    table: NDArray[np.float64]
    """(ROWS + encoded structure, h)."""
    bias: NDArray[np.float64]

    def score(self, texts: Texts) -> NDArray[np.float64]:
        """Returns what each head says of each text: (n, h)."""
        return np.asarray(weigh(texts, self.scaling, self.char_weight) @ self.table + self.bias)


def fit_heads(
    texts: Texts, targets: NDArray[np.float64], *, strength: float, structure_weight: float, char_weight: float
) -> Heads:
    """Fits heads to texts, and learns the scaling from the same texts."""
    scaling = learn_scaling(texts, structure_weight)
    table, bias = fit_ridge(weigh(texts, scaling, char_weight), targets, strength)
    return Heads(scaling, char_weight, table, bias)


def fit_outcome_heads(texts: Texts, right: NDArray[np.float64]) -> Heads:
    """Fits one head for each model to whether its answers were right: `right` has a column for each model."""
    return fit_heads(
        texts,
        right,
        strength=OUTCOME_STRENGTH,
        structure_weight=OUTCOME_STRUCTURE_WEIGHT,
        char_weight=OUTCOME_CHAR_WEIGHT,
    )
