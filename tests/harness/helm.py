"""The chart, rendered with several sets of values and read back."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import yaml
from harness.helm_process import render_files

ROOT = Path(__file__).resolve().parents[2]
CHART = ROOT / "helm" / "tiermesh"
NAMESPACE = "inference"

Manifest = dict[str, Any]


def _example(*names: str) -> Manifest:
    merged: Manifest = {}
    for name in names:
        merged |= yaml.safe_load((CHART / "examples" / f"{name}.yaml").read_text(encoding="utf-8"))
    return merged


_RULES_TIER = {"name": "l0", "config": {"backend": "rules", "model": "rules"}}

VALUE_SETS: Mapping[str, Manifest] = {
    "default": {},
    "two tiers": {
        "tiers": [_RULES_TIER, {"name": "big", "config": {"backend": "simulated", "model": "simulated-big"}}]
    },
    "gpu": _example("gpu"),
    "production": _example("gpu", "production"),
    "autoscaling": _example("gpu", "autoscaling"),
    "own models on two cards": {
        "tiers": [
            {
                "name": "local",
                "config": {"backend": "vllm", "model": "/models/mine", "tensor_parallel": 2, "dtype": "bfloat16"},
                "gpu": {"runtimeClassName": "nvidia", "resourceName": "example.com/gpu"},
                "models": {"existingClaim": "models", "hubToken": {"name": "hub", "key": "token"}},
                "shm": "8Gi",
                "nodeSelector": {"pool": "gpu"},
                "extraEnv": [{"name": "HF_HUB_OFFLINE", "value": "1"}],
            }
        ]
    },
    "vllm on cpu": {"tiers": [{"name": "cpu", "config": {"backend": "vllm", "model": "x/y"}, "gpu": {"count": 0}}]},
    "labels, priorities and digests": {
        "commonLabels": {"team": "inference"},
        "image": {"digests": {"router": "sha256:" + "0" * 64, "mesh": "sha256:" + "1" * 64}},
        "router": {"podLabels": {"team": "routing", "tier": "front"}, "priorityClassName": "high"},
        "engine": {"priorityClassName": "low", "podLabels": {"cost": "cards"}},
        "redis": {"podLabels": {"kind": "store"}},
    },
    "existing redis by url": {"redis": {"enabled": False, "existing": {"url": "redis://redis.data:6379/0"}}},
    "redis with password and volume": {
        "redis": {"password": {"name": "redis-auth"}, "persistence": {"enabled": True, "storageClass": "fast"}}
    },
    "log of outcomes": {
        "config": {"outcomes": {"enabled": True, "keep_text": True, "max_size_mb": 1024}},
        "outcomes": {"persistence": {"enabled": True, "size": "4Gi", "storageClass": "fast"}},
    },
    "no cache": {"config": {"cache": {"enabled": False}}},
    "keys in the environment": {
        "tenants": [{"name": "team-a", "keysFrom": "env", "secret": {"name": "keys", "key": "team-a.txt"}}]
    },
    "many replicas": {"router": {"replicas": 40}, "ingress": {"replicas": 25}, "classifier": {"replicas": 30}},
    "scaled": {
        component: {"autoscaling": {"enabled": True, "maxReplicas": 60}}
        for component in ("router", "classifier", "cache", "ingress", "engine")
    },
    "mutual TLS": {"tls": {"mesh": True, "controlPlane": True}},
    "TLS by SPIFFE IDs, sidecars beside callers only": {
        "envoy": {"sidecar": {"everywhere": False}},
        "tls": {
            "mesh": True,
            "identity": "spiffe://cluster.local/ns/inference/sa/{service}",
            "certManager": {"enabled": True, "issuerRef": {"name": "ca", "kind": "ClusterIssuer"}},
        },
        "config": {"outcomes": {"enabled": True}},
        "prometheusRule": {"enabled": True},
    },
    "TLS on the way of keys alone": {"tls": {"controlPlane": True}},
    "TLS for callers alone": {"ingress": {"tls": {"enabled": True, "secret": "public"}}},
    "sidecars beside callers only": {"envoy": {"sidecar": {"everywhere": False}}},
    "all switches off": {
        "podDisruptionBudgets": {"enabled": False},
        "networkPolicy": {"enabled": False},
        "topologySpread": {"enabled": False},
    },
    "other names and ports": {
        "fullnameOverride": "mesh-a",
        "clusterDomain": "k8s.example",
        "ports": {"service": 9000, "ingress": 9080, "mesh": 9001, "admin": 9002, "xds": 9003},
        "config": {"drain_s": 2.5, "limits": {"max_request_bytes": 33_554_432}, "deadlines": {"max_ms": 3_600_000}},
    },
}


@dataclass(frozen=True)
class Release:
    """What the chart renders."""

    objects: tuple[Manifest, ...]
    notes: str

    def all(self, *kinds: str) -> list[Manifest]:
        return [item for item in self.objects if item["kind"] in kinds]

    def one(self, kind: str, name: str) -> Manifest:
        (found,) = [item for item in self.all(kind) if item["metadata"]["name"] == name]
        return found

    @property
    def workloads(self) -> list[Manifest]:
        return self.all("Deployment", "StatefulSet")

    def workload(self, component: str) -> Manifest:
        (found,) = [w for w in self.workloads if w["metadata"]["labels"]["app.kubernetes.io/component"] == component]
        return found

    def config_files(self) -> dict[str, str]:
        (config_map,) = self.all("ConfigMap")
        files: dict[str, str] = config_map["data"]
        return files


def containers(workload: Manifest) -> Iterator[Manifest]:
    """Yields every container of a workload that stays: not the ones that run to their end before it starts."""
    pod = workload["spec"]["template"]["spec"]
    yield from (c for c in pod.get("initContainers", ()) if c.get("restartPolicy") == "Always")
    yield from pod["containers"]


def main_container(workload: Manifest) -> Manifest:
    found: Manifest = workload["spec"]["template"]["spec"]["containers"][0]
    return found


def render(values: Manifest | None = None, *, name: str = "tiermesh") -> Release:
    """Renders the chart as `helm install` would. Releases of equal values are one: do not change what is in them.

    Raises:
        ChartRefused: the values are not what the chart takes.
    """
    return _render(json.dumps(values or {}, sort_keys=True), name)


@cache
def _render(values: str, name: str) -> Release:
    files = render_files(CHART, json.loads(values), name=name, namespace=NAMESPACE)
    manifests = "\n---\n".join(text for path, text in files.items() if path.endswith(".yaml"))
    objects = tuple(item for item in yaml.load_all(manifests, Loader=yaml.CSafeLoader) if item)
    (notes,) = [text for path, text in files.items() if path.endswith("NOTES.txt")]
    return Release(objects, notes)
