"""The rankings that are compared. Each is fitted to some prompts and scores others; none sees an outcome it is judged by."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import design
import numpy as np
from heads import Heads, fit_outcome_heads, fit_transfer_heads
from numpy.typing import NDArray
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.linear_model import LogisticRegression

from routing.outcomes import Outcomes

Floats = NDArray[np.float64]
Rows = NDArray[np.intp]
Router = Callable[[Outcomes, Rows, Outcomes, Rows], Floats]
"""(training set, its rows, set to score, its rows) -> a score for each row, higher for the strong model."""


class Reader:
    """Reads every set once, as the classifier would see it."""

    def __init__(self, progress: Callable[[int], None] | None = None) -> None:
        self._texts: dict[str, design.Texts] = {}
        self._progress = progress

    def texts(self, outcomes: Outcomes) -> design.Texts:
        """Returns a set's texts; nothing is learnt from them here."""
        if outcomes.name not in self._texts:
            self._texts[outcomes.name] = design.read_texts(outcomes.prompts, self._progress)
        return self._texts[outcomes.name]


def make_routers(reader: Reader) -> Mapping[str, Router]:
    """Returns the routers by name.

    `tiermesh` is the classifier's model, fitted to the topics of training prompts inside a set and to structure alone
    across sets; `tiermesh_plain` is the same without either, for what the two are worth.
    """

    def tiermesh(train: Outcomes, rows: Rows, test: Outcomes, wanted: Rows) -> Floats:
        texts, right = reader.texts(train)[rows], _right(train, rows)
        if train is test:
            return gain(fit_outcome_heads(texts, right, [train.topics[at] for at in rows]), test, wanted)
        return gain(fit_transfer_heads(texts, right), test, wanted)

    def plain(train: Outcomes, rows: Rows, test: Outcomes, wanted: Rows) -> Floats:
        return gain(fit_outcome_heads(reader.texts(train)[rows], _right(train, rows)), test, wanted)

    def gain(heads: Heads, test: Outcomes, wanted: Rows) -> Floats:
        said = heads.score(reader.texts(test)[wanted])
        return np.asarray(said[:, 1] - said[:, 0])

    return {
        "tiermesh": tiermesh,
        "tiermesh_plain": plain,
        "length": _length,
        "random": _random,
        "tfidf": _tfidf,
        "oracle": _oracle,
    }


def _right(outcomes: Outcomes, rows: Rows) -> Floats:
    return np.stack([outcomes.weak[rows], outcomes.strong[rows]], axis=1)


def _length(train: Outcomes, rows: Rows, test: Outcomes, wanted: Rows) -> Floats:
    del train, rows
    return np.array([float(len(test.prompts[at])) for at in wanted])


def _random(train: Outcomes, rows: Rows, test: Outcomes, wanted: Rows) -> Floats:
    del train, rows, test
    return np.random.default_rng([7, len(wanted), int(wanted.sum())]).random(len(wanted))


def _tfidf(train: Outcomes, rows: Rows, test: Outcomes, wanted: Rows) -> Floats:
    # What the strong model alone gets right is the best of the usual targets: "the weak one is wrong" ranks worse.
    pieces = TfidfVectorizer(analyzer="char_wb", ngram_range=(2, 5), sublinear_tf=True, min_df=3, max_features=50_000)
    inside = pieces.fit_transform([train.prompts[at] for at in rows])
    alone = (train.strong > train.weak)[rows]
    fitted = LogisticRegression(C=0.3, solver="liblinear", tol=1e-3).fit(inside, alone)
    return np.asarray(fitted.decision_function(pieces.transform([test.prompts[at] for at in wanted])))


def _oracle(train: Outcomes, rows: Rows, test: Outcomes, wanted: Rows) -> Floats:
    del train, rows
    return (test.strong - test.weak)[wanted]
