"""Which processes a configuration asks for: pure, so that starting and reconciling agree."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import IntEnum
from pathlib import Path
from typing import Any, Literal

from tiermesh.mesh.bootstrap import make_bootstrap
from tiermesh.mesh.local.installation import Installation
from tiermesh.mesh.local.layout import StateLayout
from tiermesh.shared.config import TierConfig, TiermeshConfig
from tiermesh.shared.endpoints import (
    CACHE,
    CLASSIFIER,
    OUTCOMES,
    ROUTER,
    cluster_endpoints,
    engine_cluster,
    metrics_endpoint,
)
from tiermesh.shared.redis_server import EMBEDDED_HOST, make_redis_arguments, uses_embedded_redis

HealthKind = Literal["grpc", "envoy", "redis", "running"]


class Stage(IntEnum):
    """Order of stopping: lower first, so that nobody loses what it still needs."""

    FOLLOWER = 0
    ROUTER = 1
    SERVICE = 2
    ENVOY = 3
    CONTROL = 4
    STORE = 5


@dataclass(frozen=True, slots=True)
class ProcessSpec:
    """One process of the mesh."""

    name: str
    command: tuple[str, ...]
    stage: Stage
    health: HealthKind
    host: str
    port: int
    """Where it listens; 0 where it does not."""
    environ: Mapping[str, str] = field(default_factory=dict)
    """On top of what every process gets."""
    cluster: str | None = None
    """Cluster that it is a replica of."""
    replica: int = 0
    backend: str = ""
    """Engines: the tier's backend."""
    digest: str = ""
    """Of the settings that it reads only at its start; a new one means that it must be restarted."""

    @property
    def address(self) -> str:
        """Where to reach it from this machine."""
        host = "127.0.0.1" if self.host in {"0.0.0.0", "::"} else self.host
        return f"{host}:{self.port}"


_ROUTING_ONLY = frozenset(
    {"replicas", "max_complexity", "task_types", "excluded_task_types", "languages", "price_in", "price_out"}
)
"""Keys of a tier that the router reads and its engines do not."""


def plan_processes(
    config: TiermeshConfig,
    *,
    config_path: Path,
    layout: StateLayout,
    installation: Installation,
    environ: Mapping[str, str],
) -> tuple[ProcessSpec, ...]:
    """Returns every process that the mesh needs on this machine, in the order of starting.

    Args:
        config: The configuration.
        config_path: Where it is, for the processes to read it themselves.
        layout: The state folder.
        installation: Where the programs are.
        environ: `REDIS_URL` decides whether a Redis is started.
    """
    network = config.network
    python = str(installation.python)
    common = ("--config", str(config_path), "--state", str(layout.root))

    def module(name: str) -> tuple[str, ...]:
        return (python, "-m", name, *common)

    plan: list[ProcessSpec] = []
    if uses_embedded_redis(config, environ):
        command = (str(installation.redis_server), *make_redis_arguments(config))
        plan.append(ProcessSpec("redis", command, Stage.STORE, "redis", EMBEDDED_HOST, network.redis_port))
    plan.append(
        ProcessSpec(
            "traces",
            module("tiermesh.traces"),
            Stage.STORE,
            "grpc",
            network.bind,
            network.traces_port,
            digest=_digest(config.tracing.model_dump(mode="json")),
        )
    )
    plan.append(ProcessSpec("control", module("tiermesh.mesh"), Stage.CONTROL, "grpc", network.bind, network.xds_port))
    plan.append(
        ProcessSpec(
            "envoy",
            _envoy_command(config, layout, installation),
            Stage.ENVOY,
            "envoy",
            network.bind,
            network.ingress_port,
            digest=_digest(make_bootstrap(config, metrics=metrics_endpoint(config, environ))),
        )
    )
    for tier in config.tiers:
        plan.extend(_engines(config, tier, common, installation))
    services: list[tuple[str, Stage, Any]] = [
        (CLASSIFIER, Stage.SERVICE, None),
        (CACHE, Stage.SERVICE, config.cache.model_dump(mode="json", exclude={"replicas"})),
        (ROUTER, Stage.ROUTER, config.outcomes.queue),
    ]
    if config.outcomes.enabled:
        services.insert(0, (OUTCOMES, Stage.SERVICE, _outcome_settings(config)))
    for cluster, stage, settings in services:
        for number, endpoint in enumerate(cluster_endpoints(config, cluster)):
            plan.append(
                ProcessSpec(
                    f"{cluster}-{number}",
                    (*module(f"tiermesh.{cluster}"), "--replica", str(number), "--listen", str(endpoint)),
                    stage,
                    "grpc",
                    endpoint.host,
                    endpoint.port,
                    cluster=cluster,
                    replica=number,
                    digest=_digest(settings),
                )
            )
    plan.append(ProcessSpec("follower", module("tiermesh.mesh.local.follow"), Stage.FOLLOWER, "running", "", 0))
    return tuple(plan)


def _outcome_settings(config: TiermeshConfig) -> Any:
    """What the log of outcomes reads at its start; a reference that is written anew counts as a change."""
    path = config.outcomes.drift_reference
    try:
        written = None if path is None else path.stat().st_mtime_ns
    except OSError:
        written = None
    return [config.outcomes.model_dump(mode="json", exclude={"queue"}), written]


def _engines(
    config: TiermeshConfig, tier: TierConfig, common: tuple[str, ...], installation: Installation
) -> list[ProcessSpec]:
    python, environ = installation.python, {}
    if tier.backend == "vllm":
        python = installation.engine_python or installation.python
        environ = {
            "PYTHONPATH": installation.engine_pythonpath,
            "VLLM_CPU_KVCACHE_SPACE": str(tier.kv_cache_gib),
            # Nobody asked for statistics to be sent anywhere.
            "VLLM_NO_USAGE_STATS": "1",
        }
        if tier.cpu_cores is not None:
            environ["VLLM_CPU_OMP_THREADS_BIND"] = tier.cpu_cores
    cluster = engine_cluster(tier.name)
    settings = tier.model_dump(mode="json", exclude=set(_ROUTING_ONLY))
    return [
        ProcessSpec(
            f"{cluster}-{number}",
            (
                *(str(python), "-m", "tiermesh.engine", *common, "--tier", tier.name),
                *("--replica", str(number), "--listen", str(endpoint)),
            ),
            Stage.SERVICE,
            "grpc",
            endpoint.host,
            endpoint.port,
            environ=environ,
            cluster=cluster,
            replica=number,
            backend=tier.backend,
            digest=_digest(settings),
        )
        for number, endpoint in enumerate(cluster_endpoints(config, cluster))
    ]


def _envoy_command(config: TiermeshConfig, layout: StateLayout, installation: Installation) -> tuple[str, ...]:
    # A listener that changes keeps its old connections for this long, so no answer may take longer.
    longest_s = max(600, config.deadlines.max_ms // 1000)
    return (
        *(str(installation.envoy), "--config-path", str(layout.envoy_bootstrap), "--disable-hot-restart"),
        *("--drain-time-s", str(longest_s), "--drain-strategy", "immediate", "--log-level", "warning"),
        # Repeats at every update that parts of its API are marked as unfinished.
        *("--component-log-level", "misc:error"),
    )


def _digest(settings: Any) -> str:
    text = json.dumps(settings, sort_keys=True, default=str)
    return hashlib.sha256(text.encode()).hexdigest()[:12]
