"""Names and addresses: which cluster a service is, and where each of its replicas listens.

A port block of 20 belongs to each service, so that changing one service's replicas moves no
other service:

    base + 0    router          base + 60    outcomes
    base + 20   classifier      base + 100   first tier
    base + 40   cache           base + 120   second tier, and so on
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from urllib.parse import urlsplit

from tiermesh.shared.config import ConfigError, TiermeshConfig

ROUTER, CLASSIFIER, CACHE = "router", "classifier", "cache"
OUTCOMES = "outcomes"
"""The log of outcomes: one process, where the configuration has it on."""
TRACES = "traces"
"""The trace store: one process with a port of its own, and no cluster of Envoy's."""
CONTROL_PLANE = "mesh"
"""The control plane: likewise."""
_BLOCK = 20
_FIRST_TIER = 100


@dataclass(frozen=True, slots=True)
class Endpoint:
    """Where one replica listens."""

    host: str
    port: int

    def __str__(self) -> str:
        return f"{self.host}:{self.port}"


def engine_cluster(tier: str) -> str:
    """Returns the cluster name, and gRPC authority, of a tier's engines."""
    return f"engine-{tier}"


def cluster_names(config: TiermeshConfig) -> tuple[str, ...]:
    """Returns every service cluster, in a fixed order. Each name is also its gRPC authority."""
    log = (OUTCOMES,) if config.outcomes.enabled else ()
    return (ROUTER, CLASSIFIER, CACHE, *log, *(engine_cluster(tier.name) for tier in config.tiers))


def replica_count(config: TiermeshConfig, cluster: str) -> int:
    """Returns how many replicas a cluster is configured to have."""
    simple = {
        ROUTER: config.router.replicas,
        CLASSIFIER: config.classifier.replicas,
        CACHE: config.cache.replicas,
        OUTCOMES: 1,
    }
    return simple[cluster] if cluster in simple else config.tier(cluster.removeprefix("engine-")).replicas


def replica_endpoint(config: TiermeshConfig, cluster: str, replica: int) -> Endpoint:
    """Returns where replica number `replica`, from 0, of a cluster listens on this machine."""
    if cluster == TRACES:
        return Endpoint(config.network.bind, config.network.traces_port)
    if cluster == CONTROL_PLANE:
        return Endpoint(config.network.bind, config.network.xds_port)
    simple = {ROUTER: 0, CLASSIFIER: _BLOCK, CACHE: 2 * _BLOCK, OUTCOMES: 3 * _BLOCK}
    if cluster in simple:
        offset = simple[cluster]
    else:
        tiers = [engine_cluster(tier.name) for tier in config.tiers]
        offset = _FIRST_TIER + _BLOCK * tiers.index(cluster)
    return Endpoint(config.network.bind, config.network.service_port_base + offset + replica)


def cluster_endpoints(config: TiermeshConfig, cluster: str) -> tuple[Endpoint, ...]:
    """Returns where all configured replicas of a cluster listen on this machine."""
    return tuple(replica_endpoint(config, cluster, n) for n in range(replica_count(config, cluster)))


def cluster_host(config: TiermeshConfig, cluster: str) -> str:
    """Returns the DNS name behind which all replicas of a cluster are, in `dns` mode."""
    return f"{config.discovery.dns_prefix}{cluster}{config.discovery.dns_suffix}"


def mesh_target(config: TiermeshConfig) -> str:
    """Returns the gRPC target of Envoy's listener for calls between services; it is never on another machine."""
    everywhere = config.network.bind in {"0.0.0.0", "::"}
    return f"{'127.0.0.1' if everywhere else config.network.bind}:{config.network.mesh_port}"


def collector_endpoint(config: TiermeshConfig, environ: Mapping[str, str]) -> str | None:
    """Returns the operator's OTLP collector, or None."""
    return environ.get("OTEL_EXPORTER_OTLP_ENDPOINT") or config.tracing.otlp_endpoint


def metrics_endpoint(config: TiermeshConfig, environ: Mapping[str, str]) -> str | None:
    """Returns the operator's OTLP receiver of metrics, or None.

    Raises:
        ConfigError: it is not a URL.
    """
    name = "OTEL_EXPORTER_OTLP_METRICS_ENDPOINT"
    said, where = environ.get(name), name
    if not said:
        said, where = config.metrics.otlp_endpoint, "metrics.otlp_endpoint"
    if not said:
        return None
    url = urlsplit(said)
    if url.scheme not in {"http", "https"} or not url.hostname:
        raise ConfigError(f"{where}: {said!r} must be a URL such as http://localhost:4317")
    return said


def span_endpoint(config: TiermeshConfig, environ: Mapping[str, str]) -> str | None:
    """Returns where the processes of the mesh send spans.

    On one machine that is the trace store, which keeps the last traces and forwards all of them
    to the collector; elsewhere it is the collector itself.
    """
    if config.discovery.mode == "local":
        return f"http://{config.network.bind}:{config.network.traces_port}"
    return collector_endpoint(config, environ)
