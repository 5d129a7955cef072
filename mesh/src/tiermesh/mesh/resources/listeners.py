"""What both listeners share: the connection manager around a chain of filters."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from envoy.config.listener.v3 import listener_pb2
from envoy.extensions.filters.http.router.v3 import router_pb2
from envoy.extensions.filters.network.http_connection_manager.v3 import http_connection_manager_pb2
from tiermesh.mesh.resources.access_log import make_access_log
from tiermesh.mesh.resources.message import make_message, seconds, socket_address, typed
from tiermesh.mesh.resources.tracing import make_tracing
from tiermesh.shared.config import TiermeshConfig

_GRACE_MS = 5_000


def make_listener(
    config: TiermeshConfig,
    *,
    name: str,
    host: str,
    port: int,
    inbound: bool,
    traced: bool,
    filters: Sequence[Mapping[str, Any]],
    manager: Mapping[str, Any],
    buffer_bytes: int = 1024 * 1024,
    tls: Mapping[str, Any] | None = None,
) -> listener_pb2.Listener:
    """Returns a listener for HTTP/1.1, HTTP/2 and gRPC whose routes come by RDS under the listener's name.

    Args:
        config: The mesh's configuration.
        name: Name of the listener, of its routes and in statistics.
        host: Address to listen on.
        port: TCP port to listen on.
        inbound: Whether it takes requests from outside; decides the kind of its spans.
        traced: Whether there is a receiver for spans.
        filters: HTTP filters in the order of requests; the routing filter is added.
        manager: Further settings of the connection manager.
        buffer_bytes: Most bytes of a connection that are held in memory in each direction, roughly; also the HTTP/2 window.
        tls: Transport socket; None for plain text.
    """
    values: dict[str, Any] = {
        "stat_prefix": name,
        "rds": {"route_config_name": name, "config_source": {"ads": {}, "resource_api_version": "V3"}},
        "http_filters": [
            *filters,
            {
                "name": "envoy.filters.http.router",
                # Neither reads x-envoy-* instructions from callers nor shows them our upstreams.
                "typed_config": typed(router_pb2.Router, {"suppress_envoy_headers": True}),
            },
        ],
        # A stream with no event for longer than the longest deadline is dead.
        "stream_idle_timeout": seconds(config.deadlines.max_ms + _GRACE_MS),
        "common_http_protocol_options": {"idle_timeout": "3600s"},
        "http2_protocol_options": {
            "max_concurrent_streams": 1000,
            # Over HTTP/2 the window is what bounds a filter's buffer.
            "initial_stream_window_size": buffer_bytes,
            "initial_connection_window_size": max(16 * 1024 * 1024, buffer_bytes),
        },
        **manager,
    }
    if traced:
        values["tracing"] = make_tracing(config.tracing, service=f"tiermesh-envoy-{name}")
    if config.logging.access:
        values["access_log"] = [make_access_log()]
    return make_message(
        listener_pb2.Listener,
        {
            "name": name,
            "address": socket_address(host, port),
            "traffic_direction": "INBOUND" if inbound else "OUTBOUND",
            "per_connection_buffer_limit_bytes": buffer_bytes,
            "filter_chains": [
                {
                    **({"transport_socket": tls} if tls is not None else {}),
                    "filters": [
                        {
                            "name": "envoy.filters.network.http_connection_manager",
                            "typed_config": typed(http_connection_manager_pb2.HttpConnectionManager, values),
                        }
                    ],
                }
            ],
        },
    )
