"""From the configuration to snapshots: which resources an Envoy of each role gets."""

from __future__ import annotations

from collections.abc import Mapping

from tiermesh.mesh.api_keys import ApiKeys
from tiermesh.mesh.resources import (
    make_cluster,
    make_collector_cluster,
    make_endpoints,
    make_ingress_listener,
    make_ingress_routes,
    make_mesh_listener,
    make_mesh_routes,
)
from tiermesh.mesh.role import ROLES, Role, has_ingress, has_mesh
from tiermesh.mesh.snapshot import Snapshot
from tiermesh.shared.config import TiermeshConfig
from tiermesh.shared.endpoints import ROUTER, TRACES, cluster_endpoints, cluster_names, span_endpoint


def make_snapshots(config: TiermeshConfig, keys: ApiKeys, environ: Mapping[str, str]) -> dict[Role, Snapshot]:
    """Returns the snapshot of every role.

    Raises:
        ValueError: the trace endpoint is not a URL.
    """
    traces = span_endpoint(config, environ)
    return {role: make_snapshot(config, keys, role=role, traces=traces) for role in ROLES}


def make_snapshot(config: TiermeshConfig, keys: ApiKeys, *, role: Role, traces: str | None) -> Snapshot:
    """Returns the snapshot of one role.

    Args:
        config: The mesh's configuration.
        keys: API keys of its tenants.
        role: Which listeners to include; clusters follow from that.
        traces: OTLP receiver for Envoy's own spans, or None for none.
    """
    names = cluster_names(config) if has_mesh(role) else (ROUTER,)
    clusters = [make_cluster(config, name) for name in names]
    if traces is not None:
        clusters.append(make_collector_cluster(TRACES, traces))
    by_eds = config.discovery.mode == "local"
    endpoints = [make_endpoints(name, cluster_endpoints(config, name)) for name in names] if by_eds else []
    listeners, routes = [], []
    if has_ingress(role):
        listeners.append(make_ingress_listener(config, traced=traces is not None))
        routes.append(make_ingress_routes(config, keys))
    if has_mesh(role):
        listeners.append(make_mesh_listener(config, role=role, traced=traces is not None))
        routes.append(make_mesh_routes(config))
    return Snapshot.of(clusters=clusters, endpoints=endpoints, listeners=listeners, routes=routes)
