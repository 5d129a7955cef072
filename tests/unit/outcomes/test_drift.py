"""The stability index, references, windows, and what is told of them."""

from __future__ import annotations

import json
import math
import random

import pytest
from harness.outcomes import make_record
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from structlog.testing import capture_logs
from tiermesh.outcomes.drift.features import features_of
from tiermesh.outcomes.drift.measure import Marks, measure
from tiermesh.outcomes.drift.monitor import LOOK_EVERY, DriftMonitor
from tiermesh.outcomes.drift.psi import chance_index, stability_index
from tiermesh.outcomes.drift.reference import (
    OTHER,
    Bins,
    WrongReferenceError,
    count_window,
    make_reference,
    read_reference,
    write_reference,
)
from tiermesh.outcomes.metrics import OutcomeMetrics


def test_the_index_is_that_of_the_formula():
    # Counts so large that what is added to each bin does not matter.
    expected, actual = [500_000, 300_000, 200_000], [400_000, 350_000, 250_000]
    by_hand = (0.4 - 0.5) * math.log(0.4 / 0.5) + (0.35 - 0.3) * math.log(0.35 / 0.3) + 0.05 * math.log(0.25 / 0.2)
    assert stability_index(expected, actual) == pytest.approx(by_hand, rel=1e-4)
    assert stability_index(actual, expected) == pytest.approx(by_hand, rel=1e-4)
    assert stability_index(expected, [count // 100 for count in expected]) == pytest.approx(0, abs=1e-4)


def test_an_empty_bin_gives_no_infinity_and_counts_for_less_in_a_small_sample():
    few, many = stability_index([50, 50, 0], [40, 40, 20]), stability_index([5000, 5000, 0], [4000, 4000, 2000])
    assert 0 < few < many < math.inf


@pytest.mark.parametrize(("one", "other"), [([], []), ([1], [1, 2])])
def test_histograms_of_different_bins_are_refused(one, other):
    with pytest.raises(ValueError, match="same bins"):
        stability_index(one, other)


def test_the_percentile_is_that_of_chi_squared():
    # 99th percentiles from tables: 9 degrees of freedom 21.666, 4 degrees 13.277.
    assert chance_index(10, 1, 10**12) == pytest.approx(21.666, rel=0.01)
    assert chance_index(5, 2000, 2000) == pytest.approx(13.277 / 1000, rel=0.01)
    assert chance_index(1, 10, 10) == 0


def test_samples_of_one_distribution_exceed_it_about_once_in_a_hundred():
    dice = random.Random(7)
    exceeded = 0
    for _ in range(400):
        rows = [[dice.randrange(8) for _ in range(300)] for _ in range(2)]
        one, other = ([row.count(n) for n in range(8)] for row in rows)
        exceeded += stability_index(one, other) > chance_index(8, 300, 300)
    assert exceeded <= 12


def rows_of(values, name="x"):
    return [{name: value} for value in values]


def test_numbers_are_counted_in_bins_of_about_equal_counts():
    bins = make_reference(rows_of([float(n) for n in range(1000)]), since="a", until="b").features["x"]
    assert len(bins.counts) == 10
    assert max(bins.counts) - min(bins.counts) <= 2
    assert bins.place(-5.0) == 0
    assert bins.place(1e9) == 9


def test_numbers_that_are_often_equal_get_fewer_bins_and_another_value_shows():
    bins = make_reference(rows_of([1.0] * 900 + [0.5] * 100), since="", until="").features["x"]
    assert sum(bins.counts) == 1000
    moved = [0] * len(bins.counts)
    moved[bins.place(0.9)] = 1000
    assert stability_index(bins.counts, moved) > 0.25
    assert len(bins.counts) < 10
    same = make_reference(rows_of([1.0] * 200), since="", until="").features["x"]
    assert same.counts == (0, 200, 0)
    assert [same.place(value) for value in (0.9, 1.0, 1.1)] == [0, 1, 2]


def test_rare_and_unknown_kinds_count_together():
    bins = make_reference(rows_of(["qa"] * 500 + ["code"] * 495 + ["math"] * 5), since="", until="").features["x"]
    assert bins.names == ("code", "qa")
    assert bins.counts == (495, 500, 5)
    assert bins.place("math") == bins.place(OTHER) == 2


def test_a_feature_that_few_requests_have_is_left_out():
    rows = [*rows_of([0.5] * 150), *rows_of([0.5] * 99, "seldom")]
    assert set(make_reference(rows, since="", until="").features) == {"x"}


def test_too_few_requests_make_no_reference():
    with pytest.raises(WrongReferenceError, match="99 requests are too few"):
        make_reference(rows_of([1.0] * 99), since="", until="")


def test_a_reference_is_written_and_read(tmp_path):
    made = make_reference([{"x": float(n % 17), "kind": "ab"[n % 2]} for n in range(500)], since="s", until="u")
    path = tmp_path / "reference.json"
    path.write_text(write_reference(made), encoding="utf-8")
    assert read_reference(path) == made


@pytest.mark.parametrize(
    "content",
    [
        "no json",
        "[]",
        "{}",
        '{"format": 2}',
        '{"format": 1, "record_count": 1, "since": "", "until": "", "features": {"x": {"counts": [1]}}}',
        '{"format": 1, "record_count": 1, "since": "", "until": "", "features": {"x": {"counts": [1], "edges": [1]}}}',
        '{"format": 1, "record_count": 1, "since": "", "until": "", "features": {"x": {"counts": [1, 2, 3], "edges": [2, 1]}}}',
    ],
)
def test_a_file_that_is_no_reference_is_named(tmp_path, content):
    path = tmp_path / "reference.json"
    path.write_text(content, encoding="utf-8")
    with pytest.raises(WrongReferenceError, match=r"reference\.json: .*tiermesh drift reference"):
        read_reference(path)
    with pytest.raises(WrongReferenceError, match="cannot be read"):
        read_reference(tmp_path / "none.json")


def test_states_follow_the_marks_and_the_size_of_the_window():
    reference = make_reference(rows_of([float(n % 100) for n in range(5000)]), since="", until="")
    bins = reference.features["x"]

    def state(shift, count):
        window = count_window(reference, rows_of([min(99.0, n % 100 + shift) for n in range(count)]))
        (found,) = measure(reference, window, Marks())
        return found.state

    assert state(0.0, 1000) == "ok"
    assert state(8.0, 1000) == "watch"
    assert state(40.0, 1000) == "drift"
    assert state(40.0, 99) == "too_few"
    (found,) = measure(reference, {"x": [0] * len(bins.counts)}, Marks())
    assert (found.state, found.window_count) == ("too_few", 0)


def test_a_movement_that_chance_explains_is_none():
    reference = make_reference(rows_of([float(n % 10) for n in range(200)]), since="", until="")
    window = [20, 8, 14, 6, 18, 3, 10, 15, 4, 12]
    (found,) = measure(reference, {"x": window[: len(reference.features["x"].counts)]}, Marks())
    assert found.psi > 0.1
    assert found.psi < found.chance
    assert found.state == "ok"


def test_features_of_a_record_hold_no_text_and_confidence_is_one_per_tier():
    record = make_record(1, task_type="code", confidence=0.7, question="secret", answer="answer")
    found = features_of(record)
    assert found["task_type"] == "code"
    assert found["confidence_l1"] == 0.7
    assert found["confidence"] == 0.8
    assert found["language"] == "en"
    assert found["answer_tokens"] == 10
    assert "secret" not in json.dumps(found)


def traffic(count, *, hard=False, start=0):
    return [
        make_record(start + n, complexity=(0.9 if hard else 0.1) + (n % 10) / 100, confidence=0.3 if hard else 0.9)
        for n in range(count)
    ]


def make_monitor(window=300):
    reference = make_reference([features_of(record) for record in traffic(500)], since="", until="")
    return DriftMonitor(reference, window=window, marks=Marks())


def test_the_monitor_tells_of_a_drift_once_and_of_its_end_once():
    monitor = make_monitor()
    with capture_logs() as logs:
        monitor.observe(traffic(300))
        assert not logs
        monitor.observe(traffic(300, hard=True))
        monitor.observe(traffic(300, hard=True))
        moved = {entry["feature"]: entry["state"] for entry in logs if entry["log_level"] == "warning"}
        assert moved == {"complexity": "drift", "confidence_l1": "drift"}
        told = len(logs)
        monitor.observe(traffic(300))
        assert [entry["log_level"] for entry in logs[told:]] == ["info"] * 2


def test_the_window_holds_the_newest_requests_alone():
    monitor = make_monitor(window=200)
    for record in traffic(150, hard=True):
        monitor.observe([record])
    monitor.observe(traffic(200))
    found = {each.feature: each for each in monitor.measure()}
    assert found["complexity"].window_count == 200
    assert found["complexity"].psi < 0.05
    assert found["complexity"].state == "ok"


def test_a_drift_is_seen_within_a_look():
    monitor = make_monitor(window=10_000)
    with capture_logs() as logs:
        monitor.observe(traffic(LOOK_EVERY, hard=True))
    assert {entry["state"] for entry in logs} == {"drift"}


def test_gauges_show_what_the_monitor_measures():
    monitor, reader = make_monitor(), InMemoryMetricReader()
    provider = MeterProvider([reader], shutdown_on_exit=False)
    OutcomeMetrics(provider.get_meter("x"), drift=monitor.measure)
    monitor.observe(traffic(300, hard=True))
    points = {
        (metric.name, point.attributes["feature"]): point.value
        for resource in reader.get_metrics_data().resource_metrics
        for scope in resource.scope_metrics
        for metric in scope.metrics
        for point in metric.data.data_points
    }
    provider.shutdown()
    assert points["tiermesh.drift.psi", "complexity"] > 0.25
    assert points["tiermesh.drift.level", "complexity"] == 2
    assert points["tiermesh.drift.level", "task_type"] == 0
    assert points["tiermesh.drift.chance", "complexity"] > 0


def test_a_value_of_the_wrong_type_falls_into_no_bin():
    assert Bins((1, 1), edges=(0.5,)).place("word") is None
