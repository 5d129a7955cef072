"""Which tier the bandit asks, with which probability, and what it must never do."""

import numpy as np
import pytest
from harness.bandit import SETTINGS
from tiermesh.shared.bandit import NAMES, Option, Posterior, Seen, choose, context_of
from tiermesh.shared.bandit.posterior import NOISE

QA = context_of(Seen("qa", 0.4, confidence=0.9, prompt_tokens=50))
CODE = context_of(Seen("code", 0.8, confidence=0.9, prompt_tokens=50))
OPTIONS = (Option("l1", 0.1, 0.6), Option("l2", 1.0, 0.8))


def taught(context, right, prior, count=400, strength=4.0):
    fresh = Posterior.fresh(strength)
    return fresh.seeing(np.tile(context, (count, 1)), np.full(count, right - prior))


def test_a_context_has_a_number_for_each_name_and_none_that_is_not_finite():
    odd = Seen("qa", float("nan"), prompt_tokens=10**9, measures={"char_count": float("inf"), "digit_share": 9.0})
    assert context_of(odd).shape == (len(NAMES),)
    assert np.isfinite(context_of(odd)).all()
    assert np.abs(context_of(odd)).max() <= 2


def test_with_nothing_learnt_belief_is_what_the_classifier_says():
    belief = Posterior.fresh(4.0).belief(QA, 0.7)
    assert belief.right == 0.7
    assert belief.doubt == pytest.approx(NOISE * np.sqrt(QA @ QA / 4.0))


def test_answers_move_belief_and_take_doubt_away():
    learnt = taught(QA, 0.2, 0.7)
    belief = learnt.belief(QA, 0.7)
    assert belief.right == pytest.approx(0.2, abs=0.02)
    assert belief.doubt < 0.05
    assert learnt.belief(CODE, 0.7).doubt > 2 * belief.doubt, "nothing was learnt of code"


def test_learning_in_parts_is_learning_at_once():
    rng = np.random.default_rng(1)
    contexts, surprises = rng.normal(size=(60, len(NAMES))), rng.normal(size=60)
    whole = Posterior.fresh(2.0).seeing(contexts, surprises)
    parts = Posterior.fresh(2.0).seeing(contexts[:20], surprises[:20]).seeing(contexts[20:], surprises[20:])
    assert np.allclose(whole.weights, parts.weights)
    assert whole.count == parts.count == 60


def test_with_nothing_learnt_the_static_choice_stands():
    for static in ("l1", "l2"):
        choice = choose(OPTIONS, QA, {}, static=static, settings=SETTINGS)
        assert choice.preferred == static
        assert choice.probabilities[static] >= 0.98


def test_what_was_learnt_of_one_kind_of_work_decides_there():
    learnt = {"l1": taught(CODE, 0.05, 0.6), "l2": taught(CODE, 0.95, 0.8)}
    assert choose(OPTIONS, CODE, learnt, static="l1", settings=SETTINGS).preferred == "l2"
    good = {"l1": taught(QA, 0.95, 0.6), "l2": taught(QA, 0.95, 0.8)}
    assert choose(OPTIONS, QA, good, static="l2", settings=SETTINGS).preferred == "l1"


def test_a_weaker_tier_below_the_floor_is_neither_preferred_nor_tried():
    # Worth more than the large one, by its price alone.
    poor = {"l1": taught(QA, 0.35, 0.6), "l2": taught(QA, 0.36, 0.8)}
    choice = choose(OPTIONS, QA, poor, static="l2", settings=SETTINGS)
    assert choice.worth["l1"] > choice.worth["l2"]
    assert choice.preferred == "l2"
    assert choice.probabilities == {"l1": 0.0, "l2": 1.0}


def test_a_weaker_tier_that_is_only_perhaps_good_enough_is_tried_but_not_preferred():
    unsure = {"l2": taught(QA, 0.8, 0.8)}
    choice = choose(OPTIONS, QA, unsure, static="l2", settings=SETTINGS)
    assert choice.preferred == "l2"
    assert 0 < choice.probabilities["l1"] <= 0.02


def test_exploring_ends_where_nothing_is_left_to_learn():
    sure = {"l1": taught(QA, 0.9, 0.6, count=20_000), "l2": taught(QA, 0.91, 0.8, count=20_000)}
    choice = choose(OPTIONS, QA, sure, static="l1", settings=SETTINGS)
    assert choice.preferred == "l1"
    assert choice.probabilities["l2"] == 0.0


def test_dice_decide_by_the_probabilities():
    choice = choose(OPTIONS, QA, {"l1": taught(QA, 0.6, 0.6, count=3)}, static="l1", settings=SETTINGS)
    assert choice.preferred == "l1"
    assert choice.draw(0.0) == "l1"
    assert choice.draw(1.0) == "l1", "what Explain asks for"
    share = sum(choice.draw(at / 10_000) == "l2" for at in range(10_000)) / 10_000
    assert share == pytest.approx(choice.probabilities["l2"], abs=0.001)
    assert share > 0
