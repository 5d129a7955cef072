"""The mesh listener: calls between services, routed by their gRPC authority."""

from __future__ import annotations

from envoy.config.listener.v3 import listener_pb2
from tiermesh.mesh.resources.listeners import make_listener
from tiermesh.mesh.resources.message import seconds
from tiermesh.mesh.resources.routes import MESH_ROUTES
from tiermesh.mesh.role import Role
from tiermesh.shared.config import TiermeshConfig


def make_mesh_listener(config: TiermeshConfig, *, role: Role, traced: bool) -> listener_pb2.Listener:
    """Returns the listener for calls between services. A sidecar's is for its own pod only."""
    return make_listener(
        config,
        name=MESH_ROUTES,
        host="127.0.0.1" if role == "sidecar" else config.network.bind,
        port=config.network.mesh_port,
        inbound=False,
        traced=traced,
        filters=[],
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
        },
    )
