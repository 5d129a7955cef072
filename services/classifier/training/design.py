"""Texts as the rows of a sparse matrix, with the very features that the classifier sees when it runs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from tiermesh.classifier.features import Features, Turn, read_features
from tiermesh.classifier.model.grams import ROWS, WORD_ROWS, read_grams
from tiermesh.classifier.model.structure import encode_structure, read_structure
from tiermesh.shared.rules import TokenWeights

STEPS = 7
"""Thresholds of each structural number: the octiles of the training texts."""


@dataclass(frozen=True, slots=True)
class Texts:
    """Some texts, read but not yet weighed: nothing in here was learnt from them."""

    grams: sp.csr_matrix
    """1 + ln(count) of every piece: (n, ROWS)."""
    structure: NDArray[np.float32]
    """(n, structural numbers)."""

    def __getitem__(self, rows: NDArray[np.intp]) -> Texts:
        return Texts(self.grams[rows], self.structure[rows])


@dataclass(frozen=True, slots=True)
class Scaling:
    """What is learnt from training texts alone, before any label is looked at."""

    idf: NDArray[np.float32]
    thresholds: NDArray[np.float32]
    mean: NDArray[np.float32]
    scale: NDArray[np.float32]


def features_of(prompt: str) -> Features:
    """Returns what the classifier would see of a conversation of this one message."""
    return read_features((Turn("user", prompt),), TokenWeights())


def read_texts(prompts: Sequence[str], progress: Callable[[int], None] | None = None) -> Texts:
    """Reads texts; `progress` is told every 500 how many are done."""
    starts, rows, values, numbers = [0], [], [], []
    for done, prompt in enumerate(prompts):
        features = features_of(prompt)
        grams = read_grams(features.text)
        rows += [grams.word_rows, grams.char_rows]
        values += [grams.word_values, grams.char_values]
        starts.append(starts[-1] + len(grams.word_rows) + len(grams.char_rows))
        numbers.append(read_structure(features))
        if progress is not None and done % 500 == 0:
            progress(done)
    matrix = sp.csr_matrix(
        (np.concatenate(values), np.concatenate(rows).astype(np.int32), np.array(starts)), shape=(len(prompts), ROWS)
    )
    return Texts(matrix, np.stack(numbers))


def joined(first: Texts, second: Texts) -> Texts:
    """Returns the texts of both."""
    return Texts(
        sp.vstack([first.grams, second.grams], format="csr"), np.concatenate([first.structure, second.structure])
    )


def learn_scaling(texts: Texts, structure_weight: float) -> Scaling:
    """Learns how rare each piece is and how the structural numbers spread.

    Args:
        texts: The training texts.
        structure_weight: Length of the whole structural part of a typical text, where each of the two text parts has length 1.
    """
    count = texts.grams.shape[0]
    frequency = np.bincount(texts.grams.indices, minlength=ROWS)
    # The root, because a full weight lets names and numbers of single prompts speak too loudly. Pieces seen in fewer
    # than two texts get no weight at all rather than the largest: nothing can be learnt about them.
    idf = np.where(frequency > 1, np.sqrt(np.log((1 + count) / (1 + frequency)) + 1), 0).astype(np.float32)
    thresholds = np.quantile(texts.structure, np.linspace(0, 1, STEPS + 2)[1:-1], axis=0).T.astype(np.float32)
    encoded = encode_structure(texts.structure, thresholds)
    spread = encoded.std(axis=0)
    scale = np.where(spread > 1e-6, structure_weight / np.maximum(spread, 1e-6) / np.sqrt(encoded.shape[1]), 0)
    return Scaling(idf, thresholds, encoded.mean(axis=0).astype(np.float32), scale.astype(np.float32))


def weigh(texts: Texts, scaling: Scaling, char_weight: float) -> sp.csr_matrix:
    """Returns the matrix that heads are fitted to: (n, ROWS + encoded structure)."""
    weighed = (texts.grams @ sp.diags(scaling.idf)).tocsr()
    words, chars = weighed[:, :WORD_ROWS], weighed[:, WORD_ROWS:]
    structure = (encode_structure(texts.structure, scaling.thresholds) - scaling.mean) * scaling.scale
    return sp.hstack(
        [_unit(words), _unit(chars) * char_weight, sp.csr_matrix(structure)], format="csr", dtype=np.float32
    )


def _unit(matrix: sp.csr_matrix) -> sp.csr_matrix:
    lengths = np.sqrt(np.asarray(matrix.multiply(matrix).sum(axis=1)).ravel())
    return sp.diags(1 / np.maximum(lengths, 1e-9)) @ matrix
