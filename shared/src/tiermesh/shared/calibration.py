"""From what an answer looks like to the probability that it is right: a logistic model of three features."""

from __future__ import annotations

import math
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Features:
    """What the log-probabilities of an answer's first tokens look like."""

    mean_logprob: float
    worst_window_logprob: float
    """Mean of the worst four tokens in a row."""
    mean_margin: float
    """Mean distance between the chosen and the best other token."""


def confidence_of(features: Features, *, intercept: float, mean: float, window: float, margin: float) -> float:
    """Returns the probability that an answer is right, 0 to 1."""
    odds = (
        intercept
        + mean * features.mean_logprob
        + window * features.worst_window_logprob
        + margin * features.mean_margin
    )
    return logistic(odds)


def logistic(odds: float) -> float:
    """Returns the probability of log odds, without overflow."""
    if odds >= 0:
        return 1.0 / (1.0 + math.exp(-odds))
    grown = math.exp(odds)
    return grown / (1.0 + grown)
