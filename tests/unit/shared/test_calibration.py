"""Fitting confidence and bands to a log of judged answers."""

import json
import random

import pytest
from harness.outcomes import make_record
from tiermesh.shared.calibration import Band, Costs, Features, Scored, Weights, fit_band, fit_weights, outcome
from tiermesh.shared.calibration_log import LogError, Record, calibrate, read_log
from tiermesh.shared.outcomes import write_outcome

ONE_THRESHOLD = {"default": Band(0.95, 0.95)}


def sentiment_and_irony(count=2000):
    """Short judgements of feeling: the small tier says 0.80 to 0.95 of three in ten, and is nearly always right there."""
    dice = random.Random(11)
    records = []
    for n in range(count):
        kind = ("sentiment", "irony")[n % 2]
        draw = dice.random()
        if draw < 0.70:
            confidence, rate = dice.uniform(0.95, 0.995), 0.985
        elif draw < 0.96:
            confidence, rate = dice.uniform(0.84, 0.95), 0.95
        else:
            # A few it does not understand.
            confidence, rate = dice.uniform(0.80, 0.84), 0.35
        records.append(Record(kind, dice.random() < rate, confidence))
    return records


def test_a_global_threshold_that_is_too_high_is_found_and_lowered():
    changes = calibrate(sentiment_and_irony(), bands=ONE_THRESHOLD)
    assert [change.task_type for change in changes] == ["irony", "sentiment", "default"]
    for change in changes:
        assert change.own
        assert change.old.top_rate == pytest.approx(0.30, abs=0.03)
        assert change.new.top_rate <= 0.07
        assert change.new.escalation_rate <= 0.07
        assert change.new.cost < change.old.cost
        # What is given up in quality is little, and what is kept is right.
        assert change.new.quality > change.old.quality - 0.01
        assert 0.8 < change.new_band.next_below < 0.9


def test_answers_that_are_often_wrong_are_escalated():
    dice = random.Random(3)
    answers = [Scored(c := dice.random(), dice.random() < c) for _ in range(4000)]
    band = fit_band(answers, stronger_right=0.98, gain=0.1, top_gain=0.3)
    assert band.next_below == pytest.approx(0.88, abs=0.07)
    assert band.top_below == pytest.approx(0.68, abs=0.07)
    assert band.top_below <= band.next_below


def test_a_stronger_tier_that_is_no_better_is_never_asked():
    answers = [Scored(0.5, True)] * 90 + [Scored(0.4, False)] * 10
    band = fit_band(answers, stronger_right=0.5, gain=0.1, top_gain=0.3)
    assert outcome(answers, band, stronger_right=0.5, costs=Costs()).escalation_rate <= 0.2
    perfect = fit_band([Scored(0.7, True)] * 100, stronger_right=0.98, gain=0.1, top_gain=0.3)
    assert perfect == Band(0.0, 0.0)
    hopeless = fit_band([Scored(0.7, False)] * 100, stronger_right=0.98, gain=0.1, top_gain=0.3)
    assert hopeless == Band(1.0, 1.0)


def test_outcomes_add_up():
    answers = [Scored(0.5, False), Scored(0.85, True), Scored(0.85, False), Scored(0.99, True)]
    found = outcome(answers, Band(0.8, 0.95), stronger_right=1.0, costs=Costs(1.0, 4.0, 20.0))
    assert (found.top_rate, found.next_rate, found.escalation_rate) == (0.25, 0.5, 0.75)
    assert found.cost == 1.0 + (20.0 + 8.0) / 4
    assert found.quality == 1.0


def featured(count=3000, seed=5):
    """Answers whose chance to be right follows known weights."""
    dice, truth = random.Random(seed), Weights(3.0, 2.0, 1.5, 0.0)
    found = []
    for _ in range(count):
        mean = -dice.expovariate(1.5)
        features = Features(mean, mean - dice.expovariate(1.0), dice.uniform(0.0, 4.0))
        found.append((features, dice.random() < truth.confidence(features)))
    return found


def test_fitted_weights_are_near_the_true_ones_and_calibrated():
    answers = featured()
    weights = fit_weights(answers)
    assert weights.intercept == pytest.approx(3.0, abs=0.5)
    assert weights.mean == pytest.approx(2.0, abs=0.6)
    assert weights.window == pytest.approx(1.5, abs=0.4)
    assert weights.margin == pytest.approx(0.0, abs=0.2)
    fresh = featured(seed=6)
    for low, high in ((0.0, 0.3), (0.3, 0.6), (0.6, 0.9), (0.9, 1.0)):
        here = [right for features, right in fresh if low <= weights.confidence(features) < high]
        said = [c for features, _ in fresh if low <= (c := weights.confidence(features)) < high]
        assert sum(here) / len(here) == pytest.approx(sum(said) / len(said), abs=0.06)


def test_separable_answers_still_have_finite_weights():
    answers = [(Features(-0.1, -0.1, 3.0), True)] * 30 + [(Features(-3.0, -4.0, 0.1), False)] * 30
    weights = fit_weights(answers)
    assert weights.confidence(Features(-0.1, -0.1, 3.0)) > 0.9
    assert weights.confidence(Features(-3.0, -4.0, 0.1)) < 0.1
    assert all(abs(value) < 1e3 for value in (weights.intercept, weights.mean, weights.window, weights.margin))


def test_one_outcome_alone_cannot_be_fitted():
    with pytest.raises(ValueError, match="right and wrong"):
        fit_weights([(Features(-0.1, -0.1, 3.0), True)] * 30)


def test_features_are_fitted_where_the_log_has_them():
    records = [Record("qa", right, None, features) for features, right in featured()]
    (change,) = calibrate(records, bands={"default": Band(0.8, 0.95)})
    assert change.weights.mean == pytest.approx(2.0, abs=0.6)
    assert 0 < change.new.escalation_rate < 1
    assert change.new.quality > sum(record.right for record in records) / len(records)


def test_rare_task_types_share_the_fit_of_all():
    records = [*sentiment_and_irony(), *[Record("rare", True, 0.9)] * 5]
    by_kind = {change.task_type: change for change in calibrate(records, bands=ONE_THRESHOLD)}
    assert not by_kind["rare"].own
    assert by_kind["rare"].count == 5
    assert by_kind["rare"].old.top_rate == 1.0
    assert by_kind["rare"].new.top_rate == 0.0


def line(**fields):
    return json.dumps({"task_type": "qa", "right": True, "confidence": 0.5, **fields})


def test_logs_are_read_line_by_line():
    features = {"mean_logprob": -0.2, "worst_window_logprob": -1, "mean_margin": 2}
    found = read_log([line(), "", line(confidence=None, features=features, tier="l1")])
    assert found[0] == Record("qa", True, 0.5)
    assert found[1] == Record("qa", True, None, Features(-0.2, -1.0, 2.0), "l1")


@pytest.mark.parametrize(
    ("wrong", "told"),
    [
        ("{", "line 2: "),
        ("[]", "line 2: must be a JSON object"),
        (json.dumps({"right": True, "confidence": 1}), "line 2: 'task_type' is missing"),
        (line(right="yes"), "line 2: right must be true or false"),
        (line(confidence=1.5), "line 2: confidence must be a number from 0 to 1"),
        (line(confidence=None), "line 2: confidence or features is required"),
        (line(features={"mean_logprob": 1}), "line 2: features must be the numbers"),
        (line(certainty=1), "line 2: 'certainty' is not known"),
    ],
)
def test_a_wrong_line_is_named(wrong, told):
    with pytest.raises(LogError, match=told):
        read_log([line(), wrong])


def test_an_empty_log_says_so():
    with pytest.raises(LogError, match="empty"):
        read_log(["", " "])


def outcome_lines(records):
    return [write_outcome(record) for record in records]


def test_an_export_of_the_log_of_outcomes_is_read():
    judged = make_record(1, task_type="code", confidence=0.7, scores=(0.5,))
    judged.tries[0].logprobs.mean_logprob = -0.2
    judged.tries[0].logprobs.worst_window_logprob = -0.9
    judged.tries[0].logprobs.mean_margin = 2.0
    wrong = make_record(2, tier="l2", confidence=0.6, scores=(1.0, 0.2))
    rejected = make_record(3, confidence=0.3, scores=(1.0,))
    rejected.tries[0].outcome = "rejected"
    rejected.tries.add(tier="l2", outcome="answered")
    unjudged, silent = make_record(4, scores=(1.0,)), make_record(5, confidence=0.9)
    records = read_log(outcome_lines([judged, wrong, rejected, unjudged, silent]))
    assert records == [
        Record("code", True, 0.7, Features(-0.2, -0.9, 2.0), "l1"),
        Record("qa", False, 0.6, None, "l2"),
    ]


def test_an_export_without_judged_answers_says_what_is_missing():
    with pytest.raises(
        LogError, match="of 2 records 1 have feedback, and none of them an answer that the router judged"
    ):
        read_log(outcome_lines([make_record(1, scores=(1.0,)), make_record(2, confidence=0.9)]))


def test_a_wrong_line_of_an_export_is_named():
    with pytest.raises(LogError, match="line 2"):
        read_log([*outcome_lines([make_record(1)]), "{"])
