"""The rankings that are compared. Each is fitted to some prompts and scores others; none sees an outcome it is judged by."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import design
import numpy as np
import scipy.sparse as sp
from heads import Fitted, Heads, fit_to_outcomes, fit_transfer_heads
from numpy.typing import NDArray
from sklearn.feature_extraction.text import CountVectorizer, TfidfTransformer
from sklearn.linear_model import LogisticRegression, Ridge

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


def make_routers(reader: Reader, embeddings: Mapping[str, NDArray[np.float32]] | None = None) -> Mapping[str, Router]:
    """Returns the routers by name.

    `tiermesh` is the classifier's model, fitted to the topics of training prompts inside a set and to structure alone
    across sets; `tiermesh_plain` is its linear heads alone, with words everywhere, for what the two are worth. Given embeddings of every set's prompts, `minilm` is logistic regression
    on them, and `tiermesh_minilm` the mean of `tiermesh` and ridge regression on them.
    """
    fitted: dict[tuple[str, bytes], Fitted] = {}

    def fit(train: Outcomes, rows: Rows) -> Fitted:
        key = (train.name, rows.tobytes())
        if key not in fitted:
            topics = [train.topics[at] for at in rows]
            fitted[key] = fit_to_outcomes(reader.texts(train)[rows], _right(train, rows), topics)
        return fitted[key]

    def tiermesh(train: Outcomes, rows: Rows, test: Outcomes, wanted: Rows) -> Floats:
        if train is test:
            return gain(fit(train, rows), test, wanted)
        return gain(fit_transfer_heads(reader.texts(train)[rows], _right(train, rows)), test, wanted)

    def plain(train: Outcomes, rows: Rows, test: Outcomes, wanted: Rows) -> Floats:
        return gain(fit(train, rows).heads, test, wanted)

    def gain(fitted: Fitted | Heads, test: Outcomes, wanted: Rows) -> Floats:
        said = fitted.score(reader.texts(test)[wanted])
        return np.asarray(said[:, 1] - said[:, 0])

    routers: dict[str, Router] = {
        "tiermesh": tiermesh,
        "tiermesh_plain": plain,
        "length": _length,
        "random": _random,
        "tfidf": _Tfidf().score,
        "oracle": _oracle,
    }
    if embeddings is None:
        return routers
    known = embeddings

    def minilm(train: Outcomes, rows: Rows, test: Outcomes, wanted: Rows) -> Floats:
        fitted = LogisticRegression(max_iter=1000).fit(known[train.name][rows], (train.strong > train.weak)[rows])
        return np.asarray(fitted.decision_function(known[test.name][wanted]))

    def both(train: Outcomes, rows: Rows, test: Outcomes, wanted: Rows) -> Floats:
        fitted = Ridge(alpha=10.0).fit(known[train.name][rows], (train.strong - train.weak)[rows])
        return np.asarray((tiermesh(train, rows, test, wanted) + fitted.predict(known[test.name][wanted])) / 2)

    return {**routers, "minilm": minilm, "tiermesh_minilm": both}


def _right(outcomes: Outcomes, rows: Rows) -> Floats:
    return np.stack([outcomes.weak[rows], outcomes.strong[rows]], axis=1)


def _length(train: Outcomes, rows: Rows, test: Outcomes, wanted: Rows) -> Floats:
    del train, rows
    return np.array([float(len(test.prompts[at])) for at in wanted])


def _random(train: Outcomes, rows: Rows, test: Outcomes, wanted: Rows) -> Floats:
    del train, rows, test
    return np.random.default_rng([7, len(wanted), int(wanted.sum())]).random(len(wanted))


class _Tfidf:
    """TF-IDF of runs of two to five characters, and logistic regression. Every set is counted once, not once for each fold."""

    FEATURES, LEAST = 50_000, 3

    def __init__(self) -> None:
        self._counters: dict[str, tuple[CountVectorizer, sp.csr_matrix]] = {}
        self._elsewhere: dict[tuple[str, str], sp.csr_matrix] = {}

    def score(self, train: Outcomes, rows: Rows, test: Outcomes, wanted: Rows) -> Floats:
        counter, counts = self._counted(train)
        mine = counts[rows]
        often = np.bincount(mine.indices, minlength=mine.shape[1]) >= self.LEAST
        total = np.asarray(mine.sum(axis=0)).ravel() * often
        kept = np.sort(np.argsort(-total, kind="stable")[: min(self.FEATURES, int(often.sum()))])
        others = counts if train is test else self._counted_elsewhere(counter, train, test)
        weigh = TfidfTransformer(sublinear_tf=True)
        inside = weigh.fit_transform(mine[:, kept])
        # What the strong model alone gets right is the best of the usual targets: "the weak one is wrong" ranks worse.
        alone = (train.strong > train.weak)[rows]
        fitted = LogisticRegression(C=0.3, solver="liblinear", tol=1e-3).fit(inside, alone)
        return np.asarray(fitted.decision_function(weigh.transform(others[wanted][:, kept])))

    def _counted(self, outcomes: Outcomes) -> tuple[CountVectorizer, sp.csr_matrix]:
        if outcomes.name not in self._counters:
            counter = CountVectorizer(analyzer="char_wb", ngram_range=(2, 5), min_df=self.LEAST, dtype=np.float32)
            counts = counter.fit_transform(outcomes.prompts)
            self._counters[outcomes.name] = (counter, counts)
        return self._counters[outcomes.name]

    def _counted_elsewhere(self, counter: CountVectorizer, train: Outcomes, test: Outcomes) -> sp.csr_matrix:
        key = (train.name, test.name)
        if key not in self._elsewhere:
            self._elsewhere[key] = counter.transform(test.prompts)
        return self._elsewhere[key]


def _oracle(train: Outcomes, rows: Rows, test: Outcomes, wanted: Rows) -> Floats:
    del train, rows
    return (test.strong - test.weak)[wanted]
