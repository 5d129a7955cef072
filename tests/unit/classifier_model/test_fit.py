"""Fitting heads to sparse rows."""

import numpy as np
import pytest
import scipy.sparse as sp
from design import learn_scaling, read_texts, weigh
from fit import fit_ridge
from heads import fit_outcome_heads, fit_transfer_heads, topic_means
from tiermesh.classifier.model.grams import ROWS
from train import CHAR_WEIGHT, STRUCTURE_WEIGHT, _outcome_heads, line_through, split


def test_ridge_agrees_with_the_closed_form():
    rng = np.random.default_rng(3)
    rows, targets = rng.normal(size=(40, 12)), rng.normal(size=(40, 3))
    weights, bias = fit_ridge(sp.csr_matrix(rows), targets, 2.5)
    centred = rows - rows.mean(axis=0)
    exact = np.linalg.solve(centred.T @ centred + 2.5 * np.eye(12), centred.T @ (targets - targets.mean(axis=0)))
    assert np.allclose(weights, exact, atol=2e-3)
    assert np.allclose(bias, targets.mean(axis=0) - rows.mean(axis=0) @ exact, atol=2e-3)


def test_folds_keep_groups_together_and_differ_in_size_by_little():
    groups = [f"g{at % 23}" for at in range(230)]
    folds = split(groups, 5, seed=1)
    assert all(
        len({fold for fold, group in zip(folds, groups, strict=True) if group == name}) == 1 for name in set(groups)
    )
    assert max(np.bincount(folds)) - min(np.bincount(folds)) <= 10


def test_a_calibration_line_makes_scores_right_on_average():
    truth = np.array([0.0, 0.0, 1.0, 1.0])
    slope, intercept = line_through(truth * 0.2 + 5, truth)
    assert np.allclose((truth * 0.2 + 5) * slope + intercept, truth)
    assert line_through(np.ones(4), truth) == (0.0, 0.5)


WORDS = {"history": "when did the empire fall", "algebra": "solve this equation for x", "law": "is the contract void"}


@pytest.fixture(scope="module")
def prompts():
    """Texts of three topics; whether the small model is right is a coin whose bias is the topic's."""
    rng = np.random.default_rng(5)
    topics = list(rng.choice(list(WORDS), 90))
    texts = read_texts([f"{WORDS[topic]} {rng.integers(1000)} {rng.integers(1000)}" for topic in topics])
    chance = {"history": 0.9, "algebra": 0.2, "law": 0.6}
    right = np.array([[rng.random() < chance[topic], rng.random() < 0.9] for topic in topics], float)
    return texts, right, topics, np.array([chance[topic] for topic in topics])


def test_topics_make_heads_say_more_of_what_single_answers_hide(prompts):
    texts, right, topics, truth = prompts
    unseen = read_texts([f"{words} {at}{at}" for at in range(5) for words in WORDS.values()])
    with_topics, without = fit_outcome_heads(texts, right, topics), fit_outcome_heads(texts, right)
    spread = [heads.score(unseen)[:, 0].std() for heads in (with_topics, without)]
    assert spread[0] > 1.1 * spread[1]
    assert np.corrcoef(with_topics.score(texts)[:, 0], truth)[0, 1] > 0.9


def test_one_topic_changes_nothing(prompts):
    texts, right, _, _ = prompts
    same, none = fit_outcome_heads(texts, right, ["all"] * len(right)), fit_outcome_heads(texts, right)
    assert np.allclose(same.table, none.table)


def test_rare_topics_are_drawn_to_the_mean_of_all():
    right = np.array([[1.0]] + [[0.0]] * 99)
    means = topic_means(right, ["rare"] + ["common"] * 99)
    assert 0.01 < means[0, 0] < 0.1
    assert means[1, 0] == pytest.approx(0.2 / 119)


def test_heads_for_other_traffic_look_at_structure_alone(prompts):
    texts, right, _, _ = prompts
    heads = fit_transfer_heads(texts, right)
    assert not heads.table[:ROWS].any()
    assert heads.table[ROWS:].any()
    assert heads.score(texts).mean(axis=0) == pytest.approx(right.mean(axis=0), abs=0.02)


def test_heads_of_the_shipped_form_score_as_the_ones_that_were_fitted(prompts):
    _, right, topics, _ = prompts
    words = [f"{WORDS[topic]} {at}" for at, topic in enumerate(topics)]
    outcomes = [
        {"prompt": word, "weak_correct": weak, "strong_correct": strong, "topic": topic}
        for word, (weak, strong), topic in zip(words, right, topics, strict=True)
    ]
    texts = read_texts(words)
    shipped = learn_scaling(texts, STRUCTURE_WEIGHT)
    table, bias, lines = _outcome_heads(outcomes, shipped, elsewhere=False)
    fitted = fit_outcome_heads(texts, right, topics)
    assert np.allclose(weigh(texts, shipped, CHAR_WEIGHT) @ table + bias, fitted.score(texts), atol=1e-3)
    assert len(lines) == 2
