"""Alerts: on metrics that there are, by labels that they have, and not on what callers do wrong."""

from __future__ import annotations

import re

import pytest
from harness.helm import CHART, render
from tiermesh.cache.metrics import CacheMetrics
from tiermesh.engine.load import Load
from tiermesh.engine.metrics import EngineMetrics
from tiermesh.outcomes.metrics import OutcomeMetrics
from tiermesh.router.telling.metrics import RequestMetrics
from tiermesh.shared.errors import ERROR_TABLE
from tiermesh.shared.tls.metrics import watch_certificate

_OF_ENVOY = {"envoy_cluster_membership_healthy"}


@pytest.fixture(scope="module")
def rules():
    values = {"prometheusRule": {"enabled": True, "labels": {"release": "x"}, "queueSeconds": 2.5}}
    (rule,) = render(values).all("PrometheusRule")
    assert rule["metadata"]["labels"]["release"] == "x"
    return {each["alert"]: each for group in rule["spec"]["groups"] for each in group["rules"]}


@pytest.fixture(scope="module")
def instruments():
    """Names under which Prometheus has the instruments, without what it adds for units and kinds."""
    made = set()

    class Meter:
        def __getattr__(self, kind):
            def create(name, *_, **__):
                made.add(name.replace(".", "_"))

            return create

    CacheMetrics(Meter(), is_down=lambda: False)
    EngineMetrics(Meter(), tier="", model="", load=lambda: Load(0, 0, 0, 0, 0.0, 0, 0))
    OutcomeMetrics(Meter())
    RequestMetrics(Meter()).watch_breakers(lambda: ())
    watch_certificate(Meter(), lambda: 1.0)
    return made


def test_there_are_none_unless_asked_for():
    assert render().all("PrometheusRule") == []


def test_they_ask_for_metrics_that_there_are(rules, instruments):
    for name, rule in rules.items():
        asked = set(re.findall(r"\b(?:tiermesh|envoy)_[a-z_]+", rule["expr"])) - {"envoy_cluster_name"}
        assert asked, name
        for metric in asked - _OF_ENVOY:
            plain = re.sub(r"(_seconds)?(_total|_count|_sum|_bucket)?$", "", metric)
            assert plain in instruments, (name, metric)


def test_the_example_of_an_adapter_asks_for_metrics_that_there_are(instruments):
    lines = (CHART / "examples" / "autoscaling.yaml").read_text(encoding="utf-8").splitlines()
    queries = [line for line in lines if line.startswith("#") and ("Query" in line)]
    asked = {m for line in queries for m in re.findall(r"\btiermesh_engine_[a-z_]+", line)}
    assert {re.sub(r"(_seconds_bucket)?$", "", metric) for metric in asked} <= instruments
    assert len(asked) == 4


def test_what_callers_do_wrong_wakes_nobody(rules):
    (left_out,) = re.findall(r'outcome!~"([^"]+)"', rules["TiermeshRequestsFail"]["expr"])
    of_callers = {reason for reason, row in ERROR_TABLE.items() if 400 <= row.http_status < 429}
    # The router knows nothing of traces, and a peer without its certificate is no caller.
    assert set(left_out.split("|")) == {"ok", "cancelled"} | of_callers - {"UNKNOWN_TRACE", "PEER_FORBIDDEN"}


def test_thresholds_are_those_of_the_values(rules):
    assert rules["TiermeshRequestsFail"]["expr"].endswith("> 0.05")
    assert rules["TiermeshQueueLong"]["expr"].endswith("> 2.5")


def test_every_alert_says_what_it_is_and_what_to_do(rules):
    for rule in rules.values():
        assert rule["labels"]["severity"] in {"warning", "critical"}
        assert set(rule["annotations"]) == {"summary", "description"}
    assert "{{ $labels.feature }}" in rules["TiermeshDrift"]["annotations"]["summary"]
