"""Wrong values are refused before anything is installed, by a message that names the key."""

from __future__ import annotations

import itertools
import subprocess
import sys

import pytest
import yaml
from harness.helm import CHART, ROOT, render
from harness.helm_process import ChartRefused

TIER = {"name": "l1", "config": {"backend": "vllm", "model": "a/b"}}


@pytest.mark.parametrize(
    ("values", "key"),
    [
        ({"tierz": []}, "tierz"),
        ({"tiers": []}, "/tiers"),
        ({"tiers": [{"name": "L 1", "config": {"backend": "rules"}}]}, "/tiers/0/name"),
        ({"tiers": [{"name": "l1", "config": {"backend": "tgi"}}]}, "/tiers/0/config/backend"),
        ({"tiers": [{"name": "l1", "config": {"backend": "rules", "colour": "red"}}]}, "colour"),
        ({"tiers": [{"name": "l1", "config": {"backend": "rules", "replicas": 2}}]}, "replicas"),
        ({"tiers": [TIER | {"gpu": {"count": -1}}]}, "/tiers/0/gpu/count"),
        ({"tiers": [TIER | {"shm": "lots"}]}, "/tiers/0/shm"),
        ({"config": {"limits": {"burst": 0}}}, "/config/limits/burst"),
        ({"config": {"deadlines": {"default_ms": "60s"}}}, "/config/deadlines/default_ms"),
        ({"config": {"cache": {"redis_url": "redis://h"}}}, "redis_url"),
        ({"config": {"logging": {"level": "loud"}}}, "/config/logging/level"),
        ({"config": {"drain_s": -1}}, "/config/drain_s"),
        ({"router": {"replicas": 0}}, "/router/replicas"),
        ({"router": {"resources": {"limit": {}}}}, "limit"),
        ({"redis": {"existing": {"url": "redis://:hunter2@host"}}}, "/redis/existing/url"),
        ({"tenants": []}, "/tenants"),
        (
            {"tenants": [{"name": "a", "keysFrom": "values", "secret": {"name": "s", "key": "k"}}]},
            "/tenants/0/keysFrom",
        ),
        ({"tenants": [{"name": "a", "keysFrom": "file", "keys": ["abc"]}]}, "keys"),
        ({"ingress": {"service": {"type": "Public"}}}, "/ingress/service/type"),
        ({"ports": {"ingress": 80}}, "/ports/ingress"),
        ({"image": {"pullPolicy": "Sometimes"}}, "/image/pullPolicy"),
        ({"fullnameOverride": "Upper_Case"}, "/fullnameOverride"),
        ({"image": {"digests": {"router": "0.1.0"}}}, "/image/digests/router"),
        ({"image": {"digests": {"rooter": "sha256:" + "0" * 64}}}, "rooter"),
        ({"commonLabels": {"app.kubernetes.io/name": "other"}}, "app.kubernetes.io/name"),
        ({"router": {"podLabels": {"helm.sh/chart": "x"}}}, "helm.sh/chart"),
        ({"redis": {"existing": {"url": "redis+cluster://:hunter2@host"}}}, "/redis/existing/url"),
        ({"networkPolicy": {"enabled": "yes"}}, "/networkPolicy/enabled"),
    ],
)
def test_the_schema_names_the_wrong_key(values, key):
    with pytest.raises(ChartRefused, match=key):
        render(values)


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"tiers": [TIER, TIER]}, 'tiers: the name "l1" is used twice'),
        ({"tiers": [TIER | {"gpu": {"count": 1}, "config": TIER["config"] | {"tensor_parallel": 2}}]}, "gpu.count"),
        ({"tiers": [TIER | {"autoscaling": {"enabled": True}}]}, "autoscaling.metrics"),
        ({"tiers": [TIER | {"models": {"existingClaim": "a", "cacheClaim": "b"}}]}, "models: give existingClaim or"),
        (
            {"tiers": [{"name": "a", "config": {"backend": "vllm", "answer_tokens": 64, "context_tokens": 64}}]},
            "answer_tokens",
        ),
        ({"config": {"deadlines": {"default_ms": 10, "max_ms": 5}}}, "default_ms"),
        ({"redis": {"enabled": False}}, "redis.existing: give url or secret.name"),
        ({"redis": {"existing": {"url": "redis://h"}}}, "redis.enabled: false"),
        ({"ports": {"mesh": 8081}}, "ports: must all differ"),
        ({"fullnameOverride": "a" * 40, "tiers": [TIER | {"name": "b" * 31}]}, "fullnameOverride"),
    ],
)
def test_what_a_schema_cannot_say_is_refused_too(values, message):
    with pytest.raises(ChartRefused, match=message):
        render(values)


def test_files_taken_from_elsewhere_are_up_to_date():
    done = subprocess.run(
        [sys.executable, "helm/generate.py", "--check"], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr


def test_nothing_secret_is_in_the_default_values():
    text = (CHART / "values.yaml").read_text(encoding="utf-8")
    values = yaml.safe_load(text)
    assert [set(tenant) for tenant in values["tenants"]] == [{"name", "keysFrom", "secret"}]
    assert "ghp_" not in text
    assert "sk-" not in text


def test_every_section_of_the_values_is_described():
    lines = (CHART / "values.yaml").read_text(encoding="utf-8").splitlines()
    sections = [(above, line) for above, line in itertools.pairwise(lines) if line and line[0].isalpha()]
    assert len(sections) > 15
    assert [line for above, line in sections if not above.startswith("#")] == []


def test_notes_lead_to_an_answer():
    notes = render().notes
    assert "SIMULATED tiers: l1, l2" in notes
    assert "curl -s http://localhost:8080/v1/chat/completions" in notes
    assert "port-forward service/tiermesh 8080:80" in notes
    assert "create secret generic tiermesh-keys --from-literal=default=" in notes
