"""A change restarts the pods that must start anew for it, and no others."""

from __future__ import annotations

import copy

import pytest
import yaml
from harness.helm import CHART, render

TIERS = yaml.safe_load((CHART / "values.yaml").read_text(encoding="utf-8"))["tiers"]
TENANT = yaml.safe_load((CHART / "values.yaml").read_text(encoding="utf-8"))["tenants"][0]
EVERYONE = {"router", "classifier", "cache", "control-plane", "ingress", "engine-l0", "engine-l1", "engine-l2"}


def _restarted(values) -> set[str]:
    def templates(release):
        return {
            w["metadata"]["labels"]["app.kubernetes.io/component"]: w["spec"]["template"] for w in release.workloads
        }

    before, after = templates(render()), templates(render(values))
    return {name for name in before.keys() | after.keys() if before.get(name) != after.get(name)}


def _tiers(**changes):
    tiers = copy.deepcopy(TIERS)
    tiers[1]["config"] |= changes
    return {"tiers": tiers}


@pytest.mark.parametrize(
    ("values", "restarted"),
    [
        ({}, set()),
        ({"rules": {"greetings": []}}, set()),
        ({"config": {"limits": {"burst": 9}}}, set()),
        ({"config": {"deadlines": {"default_ms": 5000}}}, set()),
        ({"router": {"replicas": 7}, "engine": {"replicas": 4}}, set()),
        (_tiers(max_complexity=0.7, price_in=9.0, task_types=["faq"]), set()),
        (_tiers(model="simulated-other"), {"engine-l1"}),
        (_tiers(context_tokens=4096), {"engine-l1"}),
        ({"config": {"cache": {"ttl_s": 60}}}, {"cache"}),
        ({"config": {"classifier": {"model_timeout_ms": 9}}}, {"classifier"}),
        ({"config": {"health": {"timeout_ms": 900}, "bandit": {"mode": "shadow"}}}, set()),
        ({"banditReport": "{}"}, set()),
        ({"config": {"escalation": {"burst": 9}}}, {"router"}),
        ({"config": {"metrics": {"otlp_endpoint": "http://otel:4317"}}}, EVERYONE),
        ({"config": {"tracing": {"otlp_endpoint": "http://otel:4317"}}}, EVERYONE),
        ({"config": {"logging": {"level": "debug"}}}, EVERYONE),
        ({"config": {"deadlines": {"max_ms": 900_000}}}, EVERYONE),
        ({"router": {"podAnnotations": {"a": "b"}}}, {"router"}),
        (
            {"tenants": [{"name": "default", "keysFrom": "file", "secret": {"name": "other", "key": "default"}}]},
            {"control-plane"},
        ),
        (
            {"tenants": [{**TENANT, "weight": 3}]},
            {"engine-l0", "engine-l1", "engine-l2"},
        ),
    ],
)
def test_only_what_must_restarts(values, restarted):
    assert _restarted(values) == restarted


def test_a_new_tier_restarts_no_other():
    new = {"name": "l3", "config": {"backend": "simulated", "model": "simulated-huge"}}
    assert _restarted({"tiers": [*TIERS, new]}) == {"engine-l3"}
