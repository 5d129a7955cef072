"""Linear heads for outcomes of real models, together with the scaling they were fitted under.

Whether an answer was right is close to the toss of a coin, so what one prompt says is held back hard. Two things help:

*Topics.* Where the outcomes say what each prompt is about, such as the subject of an exam, the share of right answers within
a topic is a far quieter target than single answers are. Heads are fitted to it first, held back ten times less, and then to
what single answers differ from it. Topics are looked at in training alone; both parts are linear, and are added up, so a
model is as large and as fast with them as without.

*Transfer.* What is learnt about the words of one kind of traffic does not carry over to another. Its structure does: how long
a text is, how it is punctuated, how varied its words are. Heads for traffic unlike that of the outcomes are fitted to
structure alone.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from design import Scaling, Texts, learn_scaling, weigh
from fit import fit_ridge
from numpy.typing import NDArray
from tiermesh.classifier.model.grams import ROWS, WORD_ROWS

Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Part:
    """How heads for one kind of target are held back."""

    strength: float
    """Of the penalty."""
    structure_weight: float
    char_weight: float


SINGLE = Part(10.0, 0.2, 0.5)
"""For what single answers say."""
TOPIC = Part(1.0, 0.4, 2.0)
"""For what topics say."""
ELSEWHERE = Part(100.0, 0.2, 0.0)
"""For traffic unlike that of the outcomes."""
TOPIC_PRIOR = 20.0
"""How many answers the mean over all topics is worth beside a topic's own."""


@dataclass(frozen=True, slots=True)
class Heads:
    """Fitted heads, ready to score any texts."""

    scaling: Scaling
    """With structure at its full weight."""
    table: Floats
    """(ROWS + encoded structure, h)."""
    bias: Floats
    """(h,)."""

    def score(self, texts: Texts) -> Floats:
        """Returns what each head says of each text: (n, h)."""
        return np.asarray(weigh(texts, self.scaling, 1.0) @ self.table + self.bias)


def fit_outcome_heads(texts: Texts, right: Floats, topics: Sequence[str] | None = None) -> Heads:
    """Fits one head for each model to whether its answers were right: `right` has a column for each model."""
    plain = learn_scaling(texts, 1.0)
    return Heads(plain, *fit_outcomes(texts, right, plain, topics))


def fit_transfer_heads(texts: Texts, right: Floats) -> Heads:
    """Fits heads for traffic unlike that of the outcomes."""
    plain = learn_scaling(texts, 1.0)
    return Heads(plain, *fit_elsewhere(texts, right, plain))


def fit_outcomes(
    texts: Texts, right: Floats, plain: Scaling, topics: Sequence[str] | None = None
) -> tuple[Floats, Floats]:
    """Returns table and bias of heads under a scaling that gives structure its full weight.

    Args:
        texts: Of the prompts.
        right: How right each model's answers were, 0 to 1: (n, models).
        plain: The scaling.
        topics: What each prompt is about; None where that is not known.
    """
    if topics is None or len(set(topics)) < 2:
        return _fit(texts, right, plain, SINGLE)
    expected = topic_means(right, topics)
    table, bias = _fit(texts, expected, plain, TOPIC)
    rest, shift = _fit(texts, right - expected, plain, SINGLE)
    return table + rest, bias + shift


def fit_elsewhere(texts: Texts, right: Floats, plain: Scaling) -> tuple[Floats, Floats]:
    """Returns table and bias of heads that look at structure alone."""
    scaling = replace(plain, scale=plain.scale * ELSEWHERE.structure_weight)
    weights, bias = fit_ridge(weigh(texts, scaling, 1.0)[:, ROWS:].tocsr(), right, ELSEWHERE.strength)
    return np.vstack([np.zeros((ROWS, right.shape[1])), weights * ELSEWHERE.structure_weight]), bias


def topic_means(right: Floats, topics: Sequence[str]) -> Floats:
    """Returns, for every prompt, how often answers to its topic are right, drawn to the mean of all where there are few."""
    names, at = np.unique(np.array(topics), return_inverse=True)
    count = np.bincount(at, minlength=len(names))[:, None]
    sums = np.stack([np.bincount(at, weights=column, minlength=len(names)) for column in right.T], axis=1)
    means = (sums + TOPIC_PRIOR * right.mean(axis=0)) / (count + TOPIC_PRIOR)
    return np.asarray(means[at])


def _fit(texts: Texts, targets: Floats, plain: Scaling, part: Part) -> tuple[Floats, Floats]:
    scaling = replace(plain, scale=plain.scale * part.structure_weight)
    weights, bias = fit_ridge(weigh(texts, scaling, part.char_weight), targets, part.strength)
    weights[WORD_ROWS:ROWS] *= part.char_weight
    weights[ROWS:] *= part.structure_weight
    return weights, bias
