"""What is fitted to outcomes of real models: linear heads, and where subjects are known, a second opinion.

Whether an answer was right is close to the toss of a coin, so what one prompt says is held back hard. Two things help:

*Topics.* Where the outcomes say what each prompt is about, such as the subject of an exam, the share of right answers within
a topic is a far quieter target than single answers are. `subjects_fit` learns from it, and what is expected is the mean
of both opinions. Topics are looked at in training alone.

*Transfer.* What is learnt about the words of one kind of traffic does not carry over to another. Its structure does: how long
a text is, how it is punctuated, how varied its words are. Heads for traffic unlike that of the outcomes are fitted to
structure alone.

How hard the linear heads are held back is not chosen at all: they are the mean of several, which is as large and as fast as
one of them. What the second opinion chooses, it chooses within the prompts that are given.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import product

import numpy as np
from design import Scaling, Texts, learn_scaling, weigh
from fit import fit_ridge
from numpy.typing import NDArray
from subjects_fit import fit_subjects, opinions
from tiermesh.classifier.model.grams import ROWS, WORD_ROWS
from tiermesh.classifier.model.subjects import Subjects

Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Part:
    """How heads are held back."""

    strength: float
    """Of the penalty."""
    structure_weight: float
    char_weight: float


PARTS = tuple(Part(strength, *shape) for shape, strength in product(((0.2, 0.5), (0.4, 1.0)), (5.0, 20.0)))
"""For what single answers say; the mean of all is taken."""
ELSEWHERE = Part(100.0, 0.2, 0.0)
"""For traffic unlike that of the outcomes."""


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


@dataclass(frozen=True, slots=True)
class Fitted:
    """All that outcomes have taught."""

    heads: Heads
    subjects: Subjects | None = None

    def score(self, texts: Texts) -> Floats:
        """Returns how right each model is expected to be about each text: (n, models)."""
        said = self.heads.score(texts)
        return said if self.subjects is None else np.asarray((said + opinions(self.subjects, texts)) / 2)


def fit_to_outcomes(texts: Texts, right: Floats, topics: Sequence[str] | None = None) -> Fitted:
    """Fits everything to whether answers were right.

    Args:
        texts: Of the prompts.
        right: How right each model's answers were, 0 to 1: (n, models).
        topics: What each prompt is about; None where that is not known.
    """
    plain = learn_scaling(texts, 1.0)
    heads = Heads(plain, *fit_outcomes(texts, right, plain))
    return Fitted(heads, None if topics is None or len(set(topics)) < 2 else fit_subjects(texts, right, topics))


def fit_transfer_heads(texts: Texts, right: Floats) -> Heads:
    """Fits heads for traffic unlike that of the outcomes."""
    plain = learn_scaling(texts, 1.0)
    return Heads(plain, *fit_elsewhere(texts, right, plain))


def fit_outcomes(texts: Texts, right: Floats, plain: Scaling) -> tuple[Floats, Floats]:
    """Returns table and bias of heads under a scaling that gives structure its full weight."""
    fitted = [_fit(texts, right, plain, part) for part in PARTS]
    return np.mean([table for table, _ in fitted], axis=0), np.mean([bias for _, bias in fitted], axis=0)


def fit_elsewhere(texts: Texts, right: Floats, plain: Scaling) -> tuple[Floats, Floats]:
    """Returns table and bias of heads that look at structure alone."""
    scaling = replace(plain, scale=plain.scale * ELSEWHERE.structure_weight)
    weights, bias = fit_ridge(weigh(texts, scaling, 1.0)[:, ROWS:].tocsr(), right, ELSEWHERE.strength)
    return np.vstack([np.zeros((ROWS, right.shape[1])), weights * ELSEWHERE.structure_weight]), bias


def _fit(texts: Texts, right: Floats, plain: Scaling, part: Part) -> tuple[Floats, Floats]:
    scaling = replace(plain, scale=plain.scale * part.structure_weight)
    weights, bias = fit_ridge(weigh(texts, scaling, part.char_weight), right, part.strength)
    weights[WORD_ROWS:ROWS] *= part.char_weight
    weights[ROWS:] *= part.structure_weight
    return weights, bias
