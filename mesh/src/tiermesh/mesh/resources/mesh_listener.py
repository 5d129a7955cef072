"""The mesh listener: calls between services, routed by their gRPC authority."""

from __future__ import annotations

from typing import Any

from envoy.config.listener.v3 import listener_pb2
from tiermesh.mesh.resources.listeners import make_listener
from tiermesh.mesh.resources.message import seconds
from tiermesh.mesh.resources.replica_choice import make_replica_filter
from tiermesh.mesh.resources.routes import MESH_ROUTES
from tiermesh.mesh.role import Role
from tiermesh.shared.config import TiermeshConfig
from tiermesh.shared.headers import BREAKER


def make_mesh_listener(config: TiermeshConfig, *, role: Role, traced: bool) -> listener_pb2.Listener:
    """Returns the listener for calls between services. A sidecar's is for its own pod only."""
    return make_listener(
        config,
        name=MESH_ROUTES,
        host="127.0.0.1" if role == "sidecar" else config.network.bind,
        port=config.network.mesh_port,
        inbound=False,
        traced=traced,
        filters=[make_replica_filter()],
        manager={
            "common_http_protocol_options": {
                "idle_timeout": "3600s",
                # A backstop for callers that set no deadline.
                "max_stream_duration": seconds(config.deadlines.max_ms),
            },
            "strip_any_host_port": True,
            # The ingress has made one; it names the request through the whole mesh.
            # Envoy traces only requests that have an id, and calls between services come without one.
            "generate_request_id": True,
            "local_reply_config": {"mappers": [_told_breaker()]},
        },
    )


def _told_breaker() -> dict[str, Any]:
    """Marks what a circuit breaker has refused: to gRPC alone it would look like a service that is down."""
    return {
        "filter": {"response_flag_filter": {"flags": ["UO"]}},
        "headers_to_add": [{"header": {"key": BREAKER, "value": "%UPSTREAM_CLUSTER%"}}],
        "body_format_override": {
            "text_format_source": {"inline_string": "the circuit breaker of %UPSTREAM_CLUSTER% is open"}
        },
    }
