"""Pods: not root, bounded, probed, and given time to finish."""

from __future__ import annotations

import math

import pytest
from harness.helm import containers, main_container, render


def _pods(release):
    """Returns every pod of a release, that of `helm test` too."""
    return [workload["spec"]["template"]["spec"] for workload in release.workloads] + [
        pod["spec"] for pod in release.all("Pod")
    ]


def _every_container(release):
    return [c for pod in _pods(release) for c in [*pod.get("initContainers", ()), *pod["containers"]]]


def test_no_container_is_root_or_may_become_it(release):
    for pod in _pods(release):
        context = pod["securityContext"]
        assert context["runAsNonRoot"] is True
        assert context["runAsUser"] > 0
        assert context["seccompProfile"] == {"type": "RuntimeDefault"}
    for container in _every_container(release):
        context = container["securityContext"]
        assert context["allowPrivilegeEscalation"] is False
        assert context["readOnlyRootFilesystem"] is True
        assert context["capabilities"] == {"drop": ["ALL"]}
        assert "privileged" not in context


def test_no_pod_can_talk_to_the_kubernetes_api(release):
    (account,) = release.all("ServiceAccount")
    assert account["automountServiceAccountToken"] is False
    for pod in _pods(release):
        assert pod["automountServiceAccountToken"] is False
        assert pod["serviceAccountName"] == account["metadata"]["name"]
    assert release.all("Role", "ClusterRole", "RoleBinding", "ClusterRoleBinding") == []


def test_every_container_says_what_it_needs(release):
    for container in _every_container(release):
        assert {"cpu", "memory"} <= set(container["resources"]["requests"])
        assert "memory" in container["resources"]["limits"]


def test_every_container_that_stays_is_probed(release):
    for workload in release.workloads:
        for container in containers(workload):
            assert {"readinessProbe", "livenessProbe"} <= set(container)


def test_grpc_servers_are_probed_natively_on_an_open_port(release):
    for workload in release.all("Deployment"):
        container = main_container(workload)
        if container["name"] == "envoy":
            continue
        ports = {port["containerPort"] for port in container["ports"]}
        # With mutual TLS kubelets have a port of their own; see test_tls.py.
        asked = "--probe-listen=" if len(ports) > 1 else "--listen="
        listen = next(a for a in container["command"] if a.startswith(asked))
        for probe in ("startupProbe", "readinessProbe", "livenessProbe"):
            assert container[probe]["grpc"]["port"] in ports
            assert listen == f"{asked}0.0.0.0:{container[probe]['grpc']['port']}"


def test_a_pod_is_given_longer_than_its_drain(release, config_of):
    drain_s = config_of(release).drain_s
    for workload in release.all("Deployment"):
        pod = workload["spec"]["template"]["spec"]
        assert pod["terminationGracePeriodSeconds"] >= 5 + math.ceil(drain_s) + 5


def test_services_wait_for_their_callers_before_they_drain(release):
    for workload in release.all("Deployment"):
        if workload["metadata"]["labels"]["app.kubernetes.io/component"] in {"ingress", "control-plane"}:
            continue
        assert main_container(workload)["lifecycle"]["preStop"]["exec"]["command"] == ["sleep", "5"]


def test_every_service_has_an_envoy_beside_it_that_outlives_it():
    for workload in render().all("Deployment"):
        if workload["metadata"]["labels"]["app.kubernetes.io/component"] in {"ingress", "control-plane"}:
            continue
        bootstrap, sidecar = workload["spec"]["template"]["spec"]["initContainers"]
        assert "--role sidecar" in bootstrap["command"][-1]
        assert sidecar["restartPolicy"] == "Always"
        # Run when the pod begins to stop, it would shut the door that the draining service still calls through.
        assert "lifecycle" not in sidecar


def test_sidecars_can_be_left_to_those_who_call():
    release = render({"envoy": {"sidecar": {"everywhere": False}}})
    with_sidecar = {
        w["metadata"]["labels"]["app.kubernetes.io/component"]
        for w in release.all("Deployment")
        if len(list(containers(w))) > 1
    }
    assert with_sidecar == {"router"}


def test_a_replica_goes_once_its_successor_is_known(release):
    for workload in release.all("Deployment"):
        component = workload["metadata"]["labels"]["app.kubernetes.io/component"]
        # Those two are found by an address that stays.
        if component not in {"ingress", "control-plane"}:
            assert workload["spec"]["minReadySeconds"] == 35
        assert workload["spec"].get("progressDeadlineSeconds", 600) > workload["spec"].get("minReadySeconds", 0) + 60


def test_what_a_pod_writes_is_bounded(release):
    for workload in release.all("Deployment"):
        for volume in workload["spec"]["template"]["spec"]["volumes"]:
            if "emptyDir" in volume and volume["name"] != "outcomes":
                assert volume["emptyDir"]["sizeLimit"], volume


def test_a_pod_may_run_where_pod_security_is_restricted(release):
    allowed = {"configMap", "emptyDir", "projected", "persistentVolumeClaim", "secret"}
    for pod in _pods(release):
        assert not {"hostNetwork", "hostPID", "hostIPC"} & set(pod)
        for volume in pod.get("volumes", ()):
            assert set(volume) - {"name"} <= allowed
        for container in [*pod.get("initContainers", ()), *pod["containers"]]:
            assert not any("hostPort" in port for port in container.get("ports", ()))


def test_a_request_is_one_threads_work_but_where_vllm_decides():
    release = render({"tiers": [{"name": n, "config": {"backend": n}} for n in ("vllm", "rules")]})
    threads = {
        w["metadata"]["labels"]["app.kubernetes.io/component"]: {
            e["name"]: e.get("value") for e in main_container(w).get("env", ())
        }.get("OPENBLAS_NUM_THREADS")
        for w in release.all("Deployment")
    }
    assert {name for name, count in threads.items() if count == "1"} == {
        "router",
        "classifier",
        "cache",
        "engine-rules",
    }


def test_replicas_are_spread_over_zones_and_nodes():
    for workload in render().all("Deployment"):
        constraints = workload["spec"]["template"]["spec"]["topologySpreadConstraints"]
        assert [c["topologyKey"] for c in constraints] == ["topology.kubernetes.io/zone", "kubernetes.io/hostname"]
        for constraint in constraints:
            assert constraint["labelSelector"]["matchLabels"] == workload["spec"]["selector"]["matchLabels"]
            assert constraint["matchLabelKeys"] == ["pod-template-hash"]


def test_a_vllm_tier_gets_its_cards_memory_and_models():
    release = render(
        {
            "tiers": [
                {
                    "name": "big",
                    "config": {"backend": "vllm", "model": "/models/mine", "tensor_parallel": 4},
                    "models": {"existingClaim": "models", "hubToken": {"name": "hub", "key": "token"}},
                    "shm": "16Gi",
                    "startupSeconds": 3600,
                }
            ]
        }
    )
    workload = release.workload("engine-big")
    container = main_container(workload)
    volumes = {v["name"]: v for v in workload["spec"]["template"]["spec"]["volumes"]}
    mounts = {m["mountPath"]: m["name"] for m in container["volumeMounts"]}
    assert container["resources"]["limits"]["nvidia.com/gpu"] == 4
    assert container["image"].endswith("/engine-vllm:0.1.0")
    assert volumes[mounts["/dev/shm"]]["emptyDir"] == {"medium": "Memory", "sizeLimit": "16Gi"}
    assert volumes[mounts["/models"]]["persistentVolumeClaim"] == {"claimName": "models", "readOnly": True}
    token = next(e for e in container["env"] if e["name"] == "HF_TOKEN")
    assert token["valueFrom"]["secretKeyRef"] == {"name": "hub", "key": "token"}
    assert container["startupProbe"]["periodSeconds"] * container["startupProbe"]["failureThreshold"] >= 3600
    # There is seldom a spare card to start the new replica on first.
    assert workload["spec"]["strategy"]["rollingUpdate"] == {"maxSurge": 0, "maxUnavailable": 1}


def test_a_model_has_the_memory_of_a_model_unless_its_tier_says_otherwise():
    release = render(
        {
            "tiers": [
                {"name": "a", "config": {"backend": "vllm"}},
                {"name": "b", "config": {"backend": "vllm"}, "resources": {"limits": {"memory": "64Gi"}}},
                {"name": "c", "config": {"backend": "rules"}},
            ]
        }
    )
    memory = [main_container(release.workload(f"engine-{n}"))["resources"]["limits"]["memory"] for n in "abc"]
    assert memory == ["32Gi", "64Gi", "512Mi"]


def test_a_cache_with_the_embedding_model_has_the_memory_for_it():
    exact, semantic = (
        main_container(render({"config": {"cache": {"semantic_enabled": on}}}).workload("cache"))["resources"]
        for on in (False, True)
    )
    assert exact == {"requests": {"cpu": "250m", "memory": "192Mi"}, "limits": {"memory": "512Mi"}}
    assert semantic["limits"]["memory"] == "1536Mi"
    own = {"requests": {"cpu": 1, "memory": "2Gi"}, "limits": {"memory": "3Gi"}}
    release = render({"config": {"cache": {"semantic_enabled": True}}, "cache": {"semanticResources": own}})
    assert main_container(release.workload("cache"))["resources"] == own


@pytest.mark.parametrize("backend", ["rules", "simulated"])
def test_other_tiers_ask_for_no_card(backend):
    release = render({"tiers": [{"name": "t", "config": {"backend": backend, "model": "x"}}]})
    container = main_container(release.workload("engine-t"))
    assert "nvidia.com/gpu" not in container["resources"]["limits"]
    assert container["image"].endswith("/engine:0.1.0")
    assert "/dev/shm" not in {m["mountPath"] for m in container["volumeMounts"]}


def test_a_tier_overrides_the_defaults_of_all():
    release = render(
        {
            "engine": {"nodeSelector": {"pool": "cpu"}},
            "tiers": [
                {"name": "a", "config": {"backend": "rules"}},
                {"name": "b", "config": {"backend": "rules"}, "nodeSelector": {"pool": "fast"}, "replicas": 3},
            ],
        }
    )
    first, second = (release.workload(f"engine-{name}")["spec"] for name in "ab")
    assert first["template"]["spec"]["nodeSelector"] == {"pool": "cpu"}
    assert second["template"]["spec"]["nodeSelector"] == {"pool": "fast"}
    assert (first["replicas"], second["replicas"]) == (1, 3)


@pytest.mark.parametrize("values", [{}, {"redis": {"password": {"name": "redis-auth", "key": "password"}}}])
def test_redis_takes_calls_from_other_pods(values):
    arguments = main_container(render(values).workload("redis"))["args"]
    assert arguments[arguments.index("--protected-mode") + 1] == "no"
