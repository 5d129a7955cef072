"""Fitting heads to sparse rows."""

import numpy as np
import pytest
import scipy.sparse as sp
from design import features_of, learn_scaling, read_texts, weigh
from fit import fit_ridge
from heads import fit_to_outcomes, fit_transfer_heads
from subjects_fit import fit_subjects, gap_recovered, opinions, topic_means
from tiermesh.classifier.model.grams import ROWS, read_grams
from tiermesh.classifier.model.structure import read_structure
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


def test_topics_say_more_than_single_answers(prompts):
    texts, right, topics, truth = prompts
    fitted = fit_to_outcomes(texts, right, topics)
    unseen = read_texts([f"{words} {at}{at}" for at in range(5) for words in WORDS.values()])
    said = fitted.score(unseen)[:, 0].reshape(5, 3)
    assert (said[:, 0] > said[:, 2]).all()
    assert (said[:, 2] > said[:, 1]).all()
    assert np.corrcoef(fitted.score(texts)[:, 0], truth)[0, 1] > 0.9


def test_no_topic_or_one_gives_linear_heads_alone(prompts):
    texts, right, _, _ = prompts
    same, none = fit_to_outcomes(texts, right, ["all"] * len(right)), fit_to_outcomes(texts, right)
    assert same.subjects is None
    assert np.array_equal(same.score(texts), none.heads.score(texts))


def test_an_opinion_when_running_is_the_one_that_was_fitted(prompts):
    texts, right, topics, _ = prompts
    subjects = fit_subjects(texts, right, topics)
    assert subjects.table.flags.c_contiguous
    words = "solve this equation for x 7 8"
    features = features_of(words)
    when_running = subjects.opinion(read_grams(features.text), read_structure(features))
    assert when_running == pytest.approx(opinions(subjects, read_texts([words]))[0], abs=1e-5)


def test_a_text_without_pieces_has_an_opinion_too(prompts):
    texts, right, topics, _ = prompts
    features = features_of("")
    said = fit_subjects(texts, right, topics).opinion(read_grams(features.text), read_structure(features))
    assert np.isfinite(said).all()
    assert (np.abs(said) < 2).all()


def test_the_gap_recovered_is_half_for_chance_and_above_for_the_best_ranking():
    gains = np.array([1.0, 1.0, 0.0, 0.0])
    assert gap_recovered(np.array([4.0, 3, 2, 1]), gains) == pytest.approx(0.75)
    assert gap_recovered(np.array([1.0, 2, 3, 4]), gains) == pytest.approx(0.25)


def test_rare_topics_are_drawn_to_the_mean_of_all():
    right = np.array([[1.0]] + [[0.0]] * 99)
    means = topic_means(right, np.array([0] + [1] * 99), 2)
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
    table, bias, lines, subjects = _outcome_heads(outcomes, shipped, elsewhere=False)
    fitted = fit_to_outcomes(texts, right, topics)
    assert np.allclose(weigh(texts, shipped, CHAR_WEIGHT) @ table + bias, fitted.heads.score(texts), atol=1e-3)
    assert np.allclose(opinions(subjects, texts), opinions(fitted.subjects, texts), atol=1e-5)
    assert len(lines) == 2
