"""Every object is one that Kubernetes takes, and the objects of a release fit each other."""

from __future__ import annotations

import copy
import json
import re
from collections import Counter

import pytest
from harness.helm import CHART, NAMESPACE, VALUE_SETS, containers, main_container, render
from harness.helm_process import lint
from harness.kubernetes import VERSIONS, check_object
from jsonschema import ValidationError

OLDEST, NEWEST = "1.29.0", VERSIONS[-1]
OPERATORS = {"cert-manager.io", "monitoring.coreos.com"}
"""API groups that Kubernetes itself does not have."""


@pytest.fixture(scope="module")
def taken() -> set[tuple[str, str]]:
    """Objects found good already: most are the same in many releases."""
    return set()


@pytest.mark.parametrize("version", [OLDEST, NEWEST])
def test_kubernetes_takes_every_object(release, version, taken):
    for item in release.objects:
        if item["apiVersion"].split("/")[0] in OPERATORS:
            continue
        key = (version, json.dumps(item))
        if key not in taken:
            check_object(item, version)
            taken.add(key)


@pytest.mark.parametrize("version", [OLDEST, NEWEST])
def test_kubernetes_refuses_an_unknown_field(version):
    deployment = copy.deepcopy(render().all("Deployment")[0])
    deployment["spec"]["template"]["spec"]["containers"][0]["readinesProbe"] = {}
    with pytest.raises(ValidationError, match="readinesProbe"):
        check_object(deployment, version)


def test_lint_finds_nothing():
    report = lint(CHART, namespace=NAMESPACE, kube_version=f"v{OLDEST}")
    assert report["errors"] == []
    assert [m for m in report["messages"] if m["severity"] > 1] == []


def test_names_are_unique(release):
    names = Counter((item["kind"], item["metadata"]["name"]) for item in release.objects)
    assert [name for name, count in names.items() if count > 1] == []
    assert all(len(name) <= 63 for _, name in names)


def test_recommended_labels_are_on_every_object(release):
    for item in release.objects:
        labels = item["metadata"]["labels"]
        assert labels["app.kubernetes.io/name"] == "tiermesh"
        assert labels["app.kubernetes.io/instance"] == "tiermesh"
        assert labels["app.kubernetes.io/part-of"] == "tiermesh"
        assert labels["app.kubernetes.io/managed-by"] == "Helm"
        assert {"app.kubernetes.io/component", "app.kubernetes.io/version", "helm.sh/chart"} <= set(labels)


def test_a_workload_selects_its_own_pods_and_no_others(release):
    for workload in release.workloads:
        selector = workload["spec"]["selector"]["matchLabels"]
        matched = [w for w in release.workloads if _matches(selector, w)]
        assert matched == [workload]


def test_a_release_of_the_chart_alone_restarts_no_pod(release):
    for workload in release.workloads:
        metadata = workload["spec"]["template"]["metadata"]
        assert "helm.sh/chart" not in metadata["labels"]
        assert "app.kubernetes.io/version" not in metadata["labels"]


def test_services_lead_to_open_ports_of_one_workload(release):
    for service in release.all("Service"):
        (workload,) = [w for w in release.workloads if _matches(service["spec"]["selector"], w)]
        open_ports = {port["name"]: port["containerPort"] for c in containers(workload) for port in c["ports"]}
        for port in service["spec"]["ports"]:
            target = open_ports[port["targetPort"]]
            # A headless Service translates no port: who asks for its name gets the pod's own.
            assert service["spec"].get("clusterIP") != "None" or target == port["port"]


def test_budgets_and_scalers_hold_for_one_workload(release):
    for budget in release.all("PodDisruptionBudget"):
        assert len([w for w in release.workloads if _matches(budget["spec"]["selector"]["matchLabels"], w)]) == 1
    for scaler in release.all("HorizontalPodAutoscaler"):
        target = release.one("Deployment", scaler["spec"]["scaleTargetRef"]["name"])
        assert "replicas" not in target["spec"], "Helm and the scaler would undo each other's work"
        assert scaler["spec"]["minReplicas"] <= scaler["spec"]["maxReplicas"]


def test_tiers_of_models_may_scale_by_waiting_and_by_slots():
    release = render(VALUE_SETS["autoscaling"])
    offered = set(
        re.findall(r"name: \{as: (\w+)\}", (CHART / "examples" / "autoscaling.yaml").read_text(encoding="utf-8"))
    )
    for tier in ("l1", "l2"):
        spec = release.one("HorizontalPodAutoscaler", f"tiermesh-engine-{tier}")["spec"]
        metrics = [metric["external"]["metric"] for metric in spec["metrics"]]
        assert {metric["name"] for metric in metrics} == offered == {"tiermesh_queue_wait_p95", "tiermesh_slots_taken"}
        assert all(metric["selector"]["matchLabels"] == {"tier": tier} for metric in metrics)
        assert spec["behavior"]["scaleDown"]["stabilizationWindowSeconds"] >= 600
    l0 = release.one("HorizontalPodAutoscaler", "tiermesh-engine-l0")["spec"]
    assert [metric["type"] for metric in l0["metrics"]] == ["Resource"]


def test_everything_that_serves_has_a_budget():
    release = render()
    covered = {
        b["spec"]["selector"]["matchLabels"]["app.kubernetes.io/component"] for b in release.all("PodDisruptionBudget")
    }
    assert covered == {w["metadata"]["labels"]["app.kubernetes.io/component"] for w in release.all("Deployment")}


def test_mounted_volumes_exist_and_existing_volumes_are_mounted(release):
    for workload in release.workloads:
        pod = workload["spec"]["template"]["spec"]
        defined = {v["name"] for v in pod.get("volumes", ())}
        defined |= {v["metadata"]["name"] for v in workload["spec"].get("volumeClaimTemplates", ())}
        used = {
            m["name"] for c in [*pod.get("initContainers", ()), *pod["containers"]] for m in c.get("volumeMounts", ())
        }
        assert used == defined


def test_replicas_and_scalers_follow_the_values():
    release = render({"router": {"replicas": 40}, "cache": {"autoscaling": {"enabled": True, "maxReplicas": 7}}})
    assert release.workload("router")["spec"]["replicas"] == 40
    assert release.one("HorizontalPodAutoscaler", "tiermesh-cache")["spec"]["maxReplicas"] == 7


def test_another_release_has_names_of_its_own():
    first = {(i["kind"], i["metadata"]["name"]) for i in render().objects}
    second = {(i["kind"], i["metadata"]["name"]) for i in render(name="blue").objects}
    assert first.isdisjoint(second)


def test_images_come_from_the_named_registry():
    release = render({"image": {"registry": "registry.example.com/team", "tag": "1.2.3"}})
    images = {main_container(w)["image"] for w in release.all("Deployment")}
    assert images == {
        f"registry.example.com/team/{name}:1.2.3" for name in ("router", "classifier", "cache", "engine", "mesh")
    }


def test_every_image_has_a_tag(release):
    for workload in release.workloads:
        pod = workload["spec"]["template"]["spec"]
        for container in [*pod.get("initContainers", ()), *pod["containers"]]:
            name, _, tag = container["image"].rsplit("/", 1)[-1].partition(":")
            assert tag not in {"", "latest"}
            assert "@" not in name or name.endswith("@sha256")


def test_a_digest_wins_over_a_tag():
    release = render(VALUE_SETS["labels, priorities and digests"])
    router = release.workload("router")["spec"]["template"]["spec"]
    assert router["containers"][0]["image"] == "localhost/tiermesh/router@sha256:" + "0" * 64
    assert {c["image"] for c in router["initContainers"]} == {"localhost/tiermesh/mesh@sha256:" + "1" * 64}
    assert main_container(release.workload("cache"))["image"] == "localhost/tiermesh/cache:0.1.0"


def test_labels_of_ones_own_are_on_objects_and_pods_and_select_nothing():
    release = render(VALUE_SETS["labels, priorities and digests"])
    for item in release.objects:
        # Of pods of their own, the labels are the object's.
        pods = item["spec"]["template"]["metadata"]["labels"] if item in release.workloads else {"team": "inference"}
        is_router = item["metadata"]["labels"]["app.kubernetes.io/component"] == "router"
        assert item["metadata"]["labels"]["team"] == "inference"
        assert pods["team"] == ("routing" if is_router and item in release.workloads else "inference")
        assert "team" not in json.dumps(item.get("spec", {}).get("selector", {}))
    labels = {
        name: release.workload(name)["spec"]["template"]["metadata"]["labels"]
        for name in ("router", "engine-l1", "redis", "cache")
    }
    assert labels["router"]["tier"] == "front"
    assert labels["engine-l1"]["cost"] == "cards"
    assert labels["redis"]["kind"] == "store"
    assert labels["cache"].keys() & {"tier", "cost", "kind"} == set()


def test_what_matters_more_is_scheduled_first():
    release = render(VALUE_SETS["labels, priorities and digests"])
    classes = {
        w["metadata"]["labels"]["app.kubernetes.io/component"]: w["spec"]["template"]["spec"].get("priorityClassName")
        for w in release.workloads
    }
    assert {name: found for name, found in classes.items() if found} == {
        "router": "high",
        "engine-l0": "low",
        "engine-l1": "low",
        "engine-l2": "low",
    }


def _matches(selector, workload) -> bool:
    labels = workload["spec"]["template"]["metadata"]["labels"]
    return selector.items() <= labels.items()
