"""Routes: which cluster a request goes to, for how long, and who may send it."""

from __future__ import annotations

from typing import Any

from envoy.config.route.v3 import route_pb2
from envoy.extensions.retry.host.previous_hosts.v3 import previous_hosts_pb2
from tiermesh.mesh.api_keys import ApiKeys
from tiermesh.mesh.resources.auth import AUTH_FILTER, make_auth_rules
from tiermesh.mesh.resources.lua import DEADLINE_FILTER, SIZE_FILTER, make_deadline_numbers, make_size_numbers
from tiermesh.mesh.resources.message import make_message, seconds, typed
from tiermesh.mesh.resources.rate_limit import RATE_LIMIT_FILTER, make_rate_limits
from tiermesh.mesh.resources.replica_choice import REPLICA_FILTER, make_replica_choice
from tiermesh.mesh.resources.transcoder import SERVICES
from tiermesh.shared.config import DeadlineConfig, TiermeshConfig
from tiermesh.shared.endpoints import ROUTER, cluster_names, replica_count
from tiermesh.shared.headers import BATCH, PREFIX, PRIORITY

INGRESS_ROUTES, MESH_ROUTES = "ingress", "mesh"

_INFRASTRUCTURE = (
    "grpc.health.v1.Health",
    "grpc.reflection.v1alpha.ServerReflection",
    "grpc.reflection.v1.ServerReflection",
)
_HTTP_METHODS = {
    "/v1/chat/completions": "POST",
    "/v1/generate": "POST",
    "/v1/explain": "POST",
    "/v1/feedback": "POST",
    "/v1/models": "GET",
}
# Subscriptions rather than requests: they last as long as both sides live.
_ENDLESS = (
    "/tiermesh.api.engine.v1.EngineService/WatchLoad",
    "/tiermesh.api.cache.v1.CacheService/Lead",
    "/grpc.health.v1.Health/Watch",
)
_NO_LIMIT = {"max_stream_duration": "0s"}
# The replica was not reached, or its process died before it said anything. Envoy tries again only while the caller has
# nothing of the answer, so that what may be done twice is work that nobody has seen.
_GONE = "connect-failure,refused-stream,reset"


def make_ingress_routes(config: TiermeshConfig, keys: ApiKeys) -> route_pb2.RouteConfiguration:
    """Returns the routes of the ingress: the router's services, health and reflection.

    Keys, limits and deadlines are here rather than in the listener, so that changing them drains no connection.
    """
    limit = _client_deadline(config.deadlines)
    routes: list[dict[str, Any]] = [
        {
            "match": {"prefix": f"/{service}/"},
            "route": {
                "cluster": ROUTER,
                # Who waits for it stands in the request's body, which Envoy does not read.
                "priority": "HIGH",
                "timeout": "0s",
                "max_stream_duration": limit,
                "retry_policy": _retry(_GONE, tries=3),
            },
        }
        for service in (*SERVICES, *_INFRASTRUCTURE)
    ]
    # What the transcoder has not claimed ends here.
    routes += [
        {
            "match": {"path": path},
            "direct_response": {"status": 405, "body": {"inline_string": f"use {method}"}},
            "response_headers_to_add": [{"header": {"key": "allow", "value": method}}],
        }
        for path, method in _HTTP_METHODS.items()
    ]
    # Every path needs a route, or the tables below would not hold for it: an unknown path is 401 without a key.
    routes.append({"match": {"prefix": "/"}, "direct_response": {"status": 404}})
    return make_message(
        route_pb2.RouteConfiguration,
        {
            "name": INGRESS_ROUTES,
            "validate_clusters": True,
            "virtual_hosts": [
                {
                    "name": "ingress",
                    "domains": ["*"],
                    "routes": routes,
                    "typed_per_filter_config": {
                        AUTH_FILTER: make_auth_rules(keys),
                        RATE_LIMIT_FILTER: make_rate_limits(config.limits, [t.name for t in config.tenants]),
                        SIZE_FILTER: make_size_numbers(config.limits),
                        DEADLINE_FILTER: make_deadline_numbers(config.deadlines),
                    },
                }
            ],
        },
    )


def make_mesh_routes(config: TiermeshConfig) -> route_pb2.RouteConfiguration:
    """Returns the routes of the mesh listener: one virtual host per cluster, by gRPC authority.

    Envoy does not cut calls at their grpc-timeout here, as both ends keep it: the caller's library and the server's
    budget. A third timer for the same instant could only turn DEADLINE_EXCEEDED into a broken stream. The routes set
    no limit of their own either, as Envoy would write it over the caller's grpc-timeout; the listener has the limit.
    """
    return make_message(
        route_pb2.RouteConfiguration,
        {
            "name": MESH_ROUTES,
            "validate_clusters": True,
            "virtual_hosts": [
                {"name": cluster, "domains": [cluster], "routes": _mesh_host(cluster, alone=_is_alone(config, cluster))}
                for cluster in cluster_names(config)
            ],
        },
    )


def _is_alone(config: TiermeshConfig, cluster: str) -> bool:
    """Whether the cluster is known to have one replica, so that there is no other one to try."""
    return config.discovery.mode == "local" and replica_count(config, cluster) == 1


def _mesh_host(cluster: str, *, alone: bool) -> list[dict[str, Any]]:
    always = {"cluster": cluster, "priority": "HIGH", "timeout": "0s"}
    endless = {**always, "idle_timeout": "0s", "retry_policy": _retry(_GONE)}
    ordinary = {
        **always,
        # Counts only for clusters that balance by hash.
        **({"hash_policy": [{"header": {"header_name": PREFIX}}]} if cluster.startswith("engine-") else {}),
        # The one layer that tries again. Envoy does so only while nothing has been sent to the caller. A replica that
        # has said UNAVAILABLE is not asked the same once more.
        "retry_policy": _retry(_GONE if alone else f"unavailable,{_GONE}"),
    }
    return [
        *(
            {
                "match": {"path": path},
                "route": {**endless, "max_stream_duration": _NO_LIMIT},
                "typed_per_filter_config": {REPLICA_FILTER: make_replica_choice()},
            }
            for path in _ENDLESS
        ),
        {
            "match": {"prefix": "/", "headers": [{"name": PRIORITY, "string_match": {"exact": BATCH}}]},
            "route": {**ordinary, "priority": "DEFAULT"},
        },
        {"match": {"prefix": "/"}, "route": ordinary},
    ]


def _client_deadline(deadlines: DeadlineConfig) -> dict[str, Any]:
    """Envoy's own timer: the caller's deadline up to the longest allowed, or the default."""
    return {
        "max_stream_duration": seconds(deadlines.default_ms),
        "grpc_timeout_header_max": seconds(deadlines.max_ms),
    }


def _retry(conditions: str, *, tries: int = 1) -> dict[str, Any]:
    """When to try again, elsewhere.

    Args:
        conditions: What Envoy calls them.
        tries: How often. At the ingress the first may still go to the replica that has just died, where it does nothing:
            a dead replica has nothing in hand, and so comes first until it is ejected.
    """
    return {
        "retry_on": conditions,
        "num_retries": tries,
        "retry_host_predicate": [
            {
                "name": "envoy.retry_host_predicates.previous_hosts",
                "typed_config": typed(previous_hosts_pb2.PreviousHostsPredicate),
            }
        ],
        # Each attempt draws at random; with two replicas, three would still miss the other one in eight.
        "host_selection_retry_max_attempts": 16,
        # Drawn from 0 to the base, then to three and seven times that: long enough for a dead replica to be ejected.
        "retry_back_off": {"base_interval": "0.025s", "max_interval": "0.2s"},
    }
