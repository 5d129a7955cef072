"""Who can reach whom, worked out as Kubernetes does: what any policy of a pod allows, and nothing else."""

from __future__ import annotations

import itertools

from harness.helm import VALUE_SETS, render

WORLD = {"somebody": "else"}
SERVICES = {"router", "classifier", "cache", "engine-l0", "engine-l1", "engine-l2"}


def _labels(release) -> dict[str, dict[str, str]]:
    return {
        w["metadata"]["labels"]["app.kubernetes.io/component"]: w["spec"]["template"]["metadata"]["labels"]
        for w in release.workloads
    }


def _may_reach(release, source: dict[str, str], target: str, port: int) -> bool:
    labels = _labels(release)[target]
    policies = [
        p["spec"]
        for p in release.all("NetworkPolicy")
        if "Ingress" in p["spec"]["policyTypes"] and _selects(p["spec"]["podSelector"], labels)
    ]
    if not policies:
        return True
    return _is_allowed((rule for policy in policies for rule in policy.get("ingress", ())), "from", source, port)


def _is_allowed(rules, side: str, other: dict[str, str], port: int) -> bool:
    for rule in rules:
        peers = rule.get(side)
        named = peers is None or any(
            peer.get("podSelector", {"matchLabels": {"none": ""}})["matchLabels"].items() <= other.items()
            for peer in peers
        )
        if named and port in {p["port"] for p in rule["ports"]}:
            return True
    return False


def _may_call(release, source: str, target: dict[str, str], port: int) -> bool:
    """Whether a pod may open a connection to pods with some labels, or to what is no pod of the release."""
    labels = _labels(release)[source]
    policies = [p["spec"] for p in release.all("NetworkPolicy") if _selects(p["spec"]["podSelector"], labels)]
    policies = [policy for policy in policies if "Egress" in policy["policyTypes"]]
    if not policies:
        return True
    return _is_allowed((rule for policy in policies for rule in policy.get("egress", ())), "to", target, port)


def _selects(selector, labels: dict[str, str]) -> bool:
    for expression in selector.get("matchExpressions", ()):
        assert expression["operator"] == "NotIn"
        if labels.get(expression["key"]) in expression["values"]:
            return False
    return selector.get("matchLabels", {}).items() <= labels.items()


def test_from_outside_only_the_ingress_is_reachable():
    release = render()
    assert _may_reach(release, WORLD, "ingress", 8080)
    for component in _labels(release):
        for port in (8081, 18000, 18001, 9901, 6379, 8080):
            if (component, port) != ("ingress", 8080):
                assert not _may_reach(release, WORLD, component, port), (component, port)


def test_every_call_that_the_mesh_makes_is_allowed():
    release = render()
    pods = _labels(release)
    assert _may_reach(release, pods["ingress"], "router", 8081)
    for target in SERVICES:
        assert _may_reach(release, pods["router"], target, 8081)
    for source in (*SERVICES, "ingress"):
        assert _may_reach(release, pods[source], "control-plane", 18000)
    assert _may_reach(release, pods["cache"], "redis", 6379)


def test_who_may_be_called_may_call_and_the_other_way_round():
    """The two sides of every connection between pods are said in two places: they must agree."""
    release = render()
    pods = _labels(release)
    for source, target in itertools.product(pods, pods):
        # Open to everyone, so that only the way out says who calls.
        if target == "ingress":
            assert not _may_call(release, source, pods[target], 8080)
            continue
        for port in (8081, 18000, 6379):
            reached = _may_reach(release, pods[source], target, port)
            assert _may_call(release, source, pods[target], port) == reached, (source, target, port)


def test_pods_call_nobody_outside_but_name_servers():
    release = render()
    for source in _labels(release):
        for port in (80, 443, 4317, 6379, 8081, 18000):
            assert not _may_call(release, source, WORLD, port), (source, port)
        assert _may_call(release, source, WORLD, 53) == (source != "redis")


def test_pods_call_what_the_values_name_outside():
    collectors = {"tracing": {"otlp_endpoint": "http://otel.observability:4317"}}
    collectors["metrics"] = {"otlp_endpoint": "https://otel.example/"}
    extra = {"ports": [{"port": 3128, "protocol": "TCP"}]}
    release = render(
        {
            "config": collectors,
            "redis": {"enabled": False, "existing": {"url": "redis+cluster://redis.data:7001"}},
            "networkPolicy": {"egress": {"extra": [extra], "dnsPorts": [53, 5353]}},
        }
    )
    for source in _labels(release):
        for port in (4317, 443, 3128, 5353):
            assert _may_call(release, source, WORLD, port), (source, port)
        for port in (6379, 7001):
            assert _may_call(release, source, WORLD, port) == (source == "cache"), (source, port)


def test_a_tier_that_downloads_its_model_calls_the_hub_and_no_other():
    volume = {"existingClaim": "models"}
    tiers = [
        {"name": "hub", "config": {"backend": "vllm", "model": "a/b"}},
        {"name": "volume", "config": {"backend": "vllm", "model": "/models/mine"}, "models": volume},
        {"name": "rules", "config": {"backend": "rules"}},
    ]
    release = render({"tiers": tiers})
    assert {source for source in _labels(release) if _may_call(release, source, WORLD, 443)} == {"engine-hub"}


def test_calls_out_can_be_left_to_others():
    release = render({"networkPolicy": {"egress": {"enabled": False}}})
    assert _may_call(release, "router", WORLD, 443)
    assert not _may_reach(release, WORLD, "router", 8081)


def test_callers_reach_nothing_behind_the_router():
    release = render()
    ingress = _labels(release)["ingress"]
    for target in (SERVICES - {"router"}) | {"redis"}:
        assert not _may_reach(release, ingress, target, 8081)
        assert not _may_reach(release, ingress, target, 6379)


def test_only_the_cache_reaches_redis():
    release = render()
    for component, labels in _labels(release).items():
        assert _may_reach(release, labels, "redis", 6379) == (component == "cache")


def test_without_sidecars_everywhere_only_the_router_calls_services():
    release = render(VALUE_SETS["sidecars beside callers only"])
    pods = _labels(release)
    assert _may_reach(release, pods["router"], "engine-l1", 8081)
    assert not _may_reach(release, pods["classifier"], "engine-l1", 8081)
    assert not _may_reach(release, pods["classifier"], "control-plane", 18000)


def test_callers_of_the_ingress_can_be_named():
    release = render({"networkPolicy": {"ingressFrom": [{"podSelector": {"matchLabels": {"role": "gateway"}}}]}})
    assert _may_reach(release, {"role": "gateway"}, "ingress", 8080)
    assert not _may_reach(release, WORLD, "ingress", 8080)


def test_helm_test_reaches_the_ingress_and_nothing_else():
    release = render({"networkPolicy": {"ingressFrom": [{"podSelector": {"matchLabels": {"role": "gateway"}}}]}})
    (pod,) = release.all("Pod")
    labels = pod["metadata"]["labels"]
    assert _may_reach(release, labels, "ingress", 8080)
    for target in _labels(release).keys() - {"ingress"}:
        assert not _may_reach(release, labels, target, 8081)
    ways = [p["spec"] for p in release.all("NetworkPolicy") if _selects(p["spec"]["podSelector"], labels)]
    called = [rule for policy in ways for rule in policy.get("egress", ())]
    assert _is_allowed(called, "to", _labels(release)["ingress"], 8080)
    assert not _is_allowed(called, "to", _labels(release)["router"], 8081)
    assert not _is_allowed(called, "to", WORLD, 443)


def test_policies_can_be_left_away():
    assert render(VALUE_SETS["all switches off"]).all("NetworkPolicy") == []
