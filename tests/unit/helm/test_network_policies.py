"""Who can reach whom, worked out as Kubernetes does: what any policy of a pod allows, and nothing else."""

from __future__ import annotations

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
        if p["spec"]["podSelector"]["matchLabels"].items() <= labels.items()
    ]
    if not policies:
        return True
    for rule in (rule for policy in policies for rule in policy.get("ingress", ())):
        peers = rule.get("from")
        allowed = peers is None or any(
            peer.get("podSelector", {"matchLabels": {"none": ""}})["matchLabels"].items() <= source.items()
            for peer in peers
        )
        if allowed and port in {p["port"] for p in rule["ports"]}:
            return True
    return False


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


def test_policies_can_be_left_away():
    assert render(VALUE_SETS["all switches off"]).all("NetworkPolicy") == []
