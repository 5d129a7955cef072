"""Outcomes as JSON lines."""

from __future__ import annotations

import json

import pytest
from tiermesh.api.classifier.v1 import classifier_pb2
from tiermesh.api.outcome.v1 import record_pb2
from tiermesh.shared.outcomes import OutcomeError, is_outcome_line, read_outcomes, verdict, write_outcome

USER, JUDGE, CHECK = (
    record_pb2.FEEDBACK_SOURCE_USER,
    record_pb2.FEEDBACK_SOURCE_JUDGE,
    record_pb2.FEEDBACK_SOURCE_CHECK,
)


def an_outcome(**changes):
    found = record_pb2.Outcome(
        schema_version=1,
        request_id="r1",
        tenant="acme",
        sample_rate=0.5,
        features=record_pb2.RequestFeatures(
            task_type=classifier_pb2.TASK_TYPE_QA, complexity=0.4, languages=["zh", "en"], measures={"chars": 12.0}
        ),
        decision=record_pb2.Decision(
            candidates=[record_pb2.Candidate(tier="l1", probability=0.9), record_pb2.Candidate(tier="l2")],
            propensity=0.9,
            policy="bandit",
        ),
        text=record_pb2.Text(answers=["一行\n又一行"]),
        **changes,
    )
    found.arrived.FromMilliseconds(1_700_000_000_123)
    found.result.total.FromMilliseconds(1500)
    return found


def test_what_is_written_is_read_back_whole_and_is_one_line():
    line = write_outcome(an_outcome())
    assert "\n" not in line
    assert "一行" in line
    assert list(read_outcomes(["", line, "\n"])) == [an_outcome()]


def test_a_field_of_a_newer_version_is_passed_over():
    raw = json.loads(write_outcome(an_outcome()))
    raw["something_new"] = {"a": 1}
    raw["features"]["task_type"] = "TASK_TYPE_NOT_YET_KNOWN"
    (found,) = read_outcomes([json.dumps(raw)])
    assert found.request_id == "r1"
    assert found.features.complexity == 0.4


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("{", "line 2: is no outcome"),
        ('{"request_id": "r"}', "schema_version"),
        ('{"schema_version": 1}', "request_id"),
        ('{"request_id": "r", "schema_version": 99}', "schema version 99"),
        ('{"request_id": 5, "schema_version": 1}', "line 2"),
    ],
)
def test_a_wrong_line_is_named(line, said):
    with pytest.raises(OutcomeError, match=said):
        list(read_outcomes([write_outcome(an_outcome()), line]))


def test_other_logs_are_told_apart():
    assert is_outcome_line(write_outcome(an_outcome()))
    assert not is_outcome_line('{"tier": "l1", "task_type": "qa", "right": true}')
    assert not is_outcome_line("no json")


def feedback(*opinions):
    return an_outcome(feedback=[record_pb2.Feedback(score=s, source=source, judge=j) for s, source, j in opinions])


@pytest.mark.parametrize(
    ("opinions", "expected"),
    [
        ([], None),
        ([(1.0, USER, ""), (0.0, USER, "")], 0.0),
        ([(1.0, JUDGE, "a"), (0.0, JUDGE, "b"), (0.5, JUDGE, "b")], 0.75),
        ([(0.0, USER, ""), (1.0, JUDGE, "a")], 0.0),
        ([(0.0, USER, ""), (1.0, CHECK, "tests"), (0.2, JUDGE, "a")], 1.0),
    ],
)
def test_the_last_opinion_counts_and_checks_outrank_people_and_people_outrank_models(opinions, expected):
    assert verdict(feedback(*opinions)) == expected
