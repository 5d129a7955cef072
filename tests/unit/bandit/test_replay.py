"""Replays say what a bandit is worth, and when a log cannot tell."""

from dataclasses import replace

import numpy as np
import pytest
from harness.bandit import RAW, SETTINGS, log_of, right_of
from tiermesh.shared.bandit.logged import logged_decisions
from tiermesh.shared.bandit.replay import replay
from tiermesh.shared.bandit.report import objections
from tiermesh.shared.config import parse_config


@pytest.fixture
def config(tmp_path):
    return parse_config(RAW, tmp_path / "mesh.yaml")


def replayed(config, log, settings=SETTINGS):
    return replay(logged_decisions(log, config)[0], settings=settings)


def test_the_estimate_of_the_static_policy_covers_its_true_worth(config):
    # It always asks the small tier: right in half of 0.1 and half of 0.85.
    truth = (right_of("l1", code=True) + right_of("l1", code=False)) / 2
    covered = 0
    for seed in range(4):
        found = replayed(config, log_of(1000, explore=0.3, seed=seed))
        covered += found.right_static.low <= truth <= found.right_static.high
    assert covered >= 3


def test_a_bandit_that_finds_out_what_each_tier_is_good_at_passes(config):
    found = replayed(config, log_of(4000, explore=0.3))
    # In truth 0.875 of answers are right if code goes to the large tier, and 0.475 if nothing does.
    assert found.right_difference.low > 0.25
    assert found.right_bandit.low < 0.875 < found.right_bandit.high + 0.03
    assert found.worth_difference.low > 0.1
    assert found.moved == pytest.approx(0.5, abs=0.1)
    assert found.exploring <= SETTINGS.exploration
    assert found.support == 1.0
    assert objections(found, exploration=0.02, tolerance=0.0) == []


def test_a_log_that_never_tried_another_tier_does_not_pass(config):
    log = log_of(2000, explore=0.0)
    found = replayed(config, log, replace(SETTINGS, exploration=0.2, cost_weight=0.0))
    said = objections(found, exploration=0.2, tolerance=0.0)
    assert found.support < 0.95
    assert any("could have been made by the log" in objection for objection in said)


def test_few_requests_and_a_worse_bandit_do_not_pass(config):
    found = replayed(config, log_of(200))
    assert any(
        "at least 500 are needed" in objection for objection in objections(found, exploration=0.02, tolerance=0.0)
    )
    worse = replace(found, requests=5000, effective=1000.0, worth_difference=replace(found.worth_difference, low=-0.05))
    assert any("worth may fall by 0.0500" in o for o in objections(worse, exploration=0.02, tolerance=0.01))
    assert objections(worse, exploration=0.02, tolerance=0.06) == []


def test_a_biased_reward_model_is_corrected_by_known_propensities(config):
    # One block learns nothing useful; the weights alone have to tell, and do.
    log = logged_decisions(log_of(3000, explore=0.4, seed=3), config)[0]
    stubborn = replay(log, settings=replace(SETTINGS, prior_strength=1e9, exploration=0.0))
    assert stubborn.right_static.mean == pytest.approx(0.475, abs=0.05)
    assert stubborn.right_static.low <= 0.475 <= stubborn.right_static.high


def test_what_cannot_be_used_is_counted_by_reason(config):
    def changed(change):
        (outcome,) = log_of(1)
        change(outcome)
        return outcome

    log = [
        changed(lambda o: o.ClearField("feedback")),
        changed(lambda o: setattr(o.result, "cache", "hit")),
        changed(lambda o: setattr(o.decision, "pinned", True)),
        changed(lambda o: setattr(o.result, "simulated", True)),
        changed(lambda o: setattr(o.result, "tier", "elsewhere")),
        changed(lambda o: setattr(o.result, "escalated", True)),
        changed(lambda o: o.decision.candidates.pop()),
        changed(lambda o: setattr(o.decision.candidates[0], "probability", 0.0)),
        *log_of(3),
    ]
    usable, left_out = logged_decisions(log, config)
    assert len(usable) == 3
    assert left_out == {
        "no_feedback": 1, "no_tier_asked": 1, "pinned": 1, "simulated": 1, "answered_by_another_tier": 2, "no_choice": 1,
        "unknown_propensity": 1,
    }  # fmt: skip


def test_decisions_are_in_the_order_of_time_and_the_static_choice_is_the_likeliest(config):
    log = log_of(50, explore=0.2)
    usable, _ = logged_decisions(reversed(log), config)
    assert [one.asked for one in usable] == [o.decision.candidates[0].tier for o in log]
    assert {one.static for one in usable} == {"l1"}
    assert np.isclose([sum(one.probabilities.values()) for one in usable], 1).all()


def test_too_short_a_log_is_refused(config):
    with pytest.raises(ValueError, match="at least 20 are needed"):
        replayed(config, log_of(5))
