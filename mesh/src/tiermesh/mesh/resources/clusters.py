"""Clusters: how Envoy reaches the replicas of one service."""

from __future__ import annotations

import ipaddress
from typing import Any
from urllib.parse import urlsplit

from envoy.config.cluster.v3 import cluster_pb2
from envoy.extensions.clusters.dns.v3 import dns_cluster_pb2
from envoy.extensions.load_balancing_policies.client_side_weighted_round_robin.v3 import (
    client_side_weighted_round_robin_pb2,
)
from envoy.extensions.load_balancing_policies.least_request.v3 import least_request_pb2
from envoy.extensions.load_balancing_policies.maglev.v3 import maglev_pb2
from envoy.extensions.load_balancing_policies.round_robin.v3 import round_robin_pb2
from envoy.extensions.transport_sockets.tls.v3 import tls_pb2
from envoy.extensions.upstreams.http.v3 import http_protocol_options_pb2
from tiermesh.mesh.resources.message import make_message, socket_address, typed
from tiermesh.mesh.resources.tls import make_peer_tls
from tiermesh.shared.config import TiermeshConfig
from tiermesh.shared.endpoints import ROUTER, cluster_host, engine_cluster

_HTTP2_OPTIONS = "envoy.extensions.upstreams.http.v3.HttpProtocolOptions"
_WINDOW_BYTES = 1024 * 1024
_MOST_PERCENT_OF_AVERAGE = 150
"""A replica that has more in hand than this passes prompts on, KV cache or not."""


def make_cluster(config: TiermeshConfig, name: str) -> cluster_pb2.Cluster:
    """Returns the cluster of a service; its replicas come by EDS, or by DNS where discovery says so."""
    values: dict[str, Any] = {
        "name": name,
        "connect_timeout": "1s",
        **_balancing(config, name),
        "common_lb_config": {
            # Below the default of 50 % Envoy would send requests to replicas that it knows to be down.
            "healthy_panic_threshold": {"value": 0},
            # The default keeps changes of health from the workers for up to a second when there are several.
            "update_merge_window": "0s",
        },
        # A replica taken out of the configuration is left at once, not when its health check fails.
        "ignore_health_on_host_removal": True,
        "health_checks": [_health_check(config)],
        "outlier_detection": _outliers(name),
        "circuit_breakers": {"thresholds": _breakers(config, name)},
        "typed_extension_protocol_options": _http2(),
    }
    if config.discovery.mode == "dns":
        values |= _by_name(name, cluster_host(config, name), config.discovery.service_port)
    else:
        values |= {
            "type": "EDS",
            "eds_cluster_config": {"eds_config": {"ads": {}, "resource_api_version": "V3"}, "service_name": name},
        }
    if config.tls.mesh:
        # Health checks and load reports go the same way.
        values["transport_socket"] = make_peer_tls(config, name)
    return make_message(cluster_pb2.Cluster, values)


def make_collector_cluster(name: str, endpoint: str) -> cluster_pb2.Cluster:
    """Returns the cluster `name` of the OTLP receiver at `endpoint`, such as `http://127.0.0.1:4317`.

    Raises:
        ValueError: the endpoint is not a URL with a host.
    """
    url = urlsplit(endpoint if "://" in endpoint else f"http://{endpoint}")
    if not url.hostname:
        raise ValueError(f"OTLP endpoint {endpoint!r} must be a URL such as http://localhost:4317")
    port = url.port or (443 if url.scheme == "https" else 4317)
    values: dict[str, Any] = {
        "name": name,
        "connect_timeout": "1s",
        "typed_extension_protocol_options": _http2(),
    }
    if _is_address(url.hostname):
        values |= {"type": "STATIC", "load_assignment": _one_address(name, url.hostname, port)}
    else:
        values |= _by_name(name, url.hostname, port)
    if url.scheme == "https":
        values["transport_socket"] = {
            "name": "envoy.transport_sockets.tls",
            "typed_config": typed(tls_pb2.UpstreamTlsContext, {"sni": url.hostname}),
        }
    return make_message(cluster_pb2.Cluster, values)


def _balancing(config: TiermeshConfig, name: str) -> dict[str, Any]:
    """The replica with the fewest requests by default: this Envoy sees all requests to its replicas, as they are.

    All replicas are compared: of two drawn at random, both may be the one that hangs. Several Envoys in front of the
    same replicas each see only their own requests; the replicas' reports tell them of the rest.
    """
    fewest = typed(least_request_pb2.LeastRequest, {"selection_method": "FULL_SCAN"})
    policies = [("envoy.load_balancing_policies.least_request", fewest)]
    tiers = {engine_cluster(tier.name): tier for tier in config.tiers}
    if name in tiers and tiers[name].balancing == "load_reports":
        reported = typed(
            client_side_weighted_round_robin_pb2.ClientSideWeightedRoundRobin,
            {
                # An answer takes seconds; a report at its end would come too late to tell of a burst.
                "enable_oob_load_report": True,
                "oob_reporting_period": "0.5s",
                "blackout_period": "1s",
                "weight_expiration_period": "10s",
                "weight_update_period": "0.5s",
            },
        )
        policies = [("envoy.load_balancing_policies.client_side_weighted_round_robin", reported)]
    if name in tiers and tiers[name].balancing == "prefix_affinity":
        # Consistent hashing with bounded loads (Mirrokni et al., arXiv:1608.01350). Maglev (Eisenbud et al., NSDI 2016)
        # rather than a ring: Envoy's ring gives the replicas that are left more places on it when one is gone, which moves
        # a sixth of the others' prefixes, too.
        hashed = typed(
            maglev_pb2.Maglev, {"consistent_hashing_lb_config": {"hash_balance_factor": _MOST_PERCENT_OF_AVERAGE}}
        )
        policies = [("envoy.load_balancing_policies.maglev", hashed)]
    # Proxyless gRPC takes the first that it knows, and does not know the first.
    policies.append(("envoy.load_balancing_policies.round_robin", typed(round_robin_pb2.RoundRobin)))
    extensions = [{"typed_extension_config": {"name": kind, "typed_config": policy}} for kind, policy in policies]
    return {"load_balancing_policy": {"policies": extensions}}


def _breakers(config: TiermeshConfig, name: str) -> list[dict[str, Any]]:
    """Envoy has two priorities per cluster, each with breakers and connections of its own: the routes choose one.

    Proxyless gRPC knows the default one alone, and holds each process to it.
    """
    tiers = {engine_cluster(tier.name): tier for tier in config.tiers}
    limits = config.breakers_of(tiers[name]) if name in tiers else config.breakers
    return [
        {
            "priority": priority,
            "max_connections": 1024,
            # What is let in may wait for its connection; a limit on that would open before the one that is meant.
            "max_pending_requests": requests,
            "max_requests": requests,
            # Shows in Envoy's metrics how far from opening each breaker is.
            "track_remaining": True,
            "retry_budget": _retry_budget(name),
        }
        for priority, requests in (("DEFAULT", limits.batch_requests), ("HIGH", limits.interactive_requests))
    ]


def _health_check(config: TiermeshConfig) -> dict[str, Any]:
    return {
        "timeout": f"{config.health.timeout_ms / 1000}s",
        "interval": "0.5s",
        # The default is 60 s: an idle mesh would take a minute to see a replica come up.
        "no_traffic_interval": "0.5s",
        "unhealthy_threshold": 2,
        "healthy_threshold": 1,
        "grpc_health_check": {},
    }


def _retry_budget(name: str) -> dict[str, Any]:
    """How many retries may be in flight, as a share of all requests, so that they cannot make an overload worse.

    Requests of a router are tried again only where its connection broke. One that dies takes half of what is in flight
    with it, and each of those may go to the other one. Elsewhere UNAVAILABLE is tried again too, which a whole tier may
    answer: a tenth keeps the calls of a request below 1.2 then.
    """
    if name == ROUTER:
        return {"budget_percent": {"value": 50}, "min_retry_concurrency": 20}
    return {"budget_percent": {"value": 10}, "min_retry_concurrency": 1}


def _outliers(name: str) -> dict[str, Any]:
    """Ejects replicas that cannot be reached, and engines whose device failed.

    UNAVAILABLE from the router is often an honest answer about another part of the mesh (NO_ELIGIBLE_TIER), so only
    failures to reach a replica eject it; an engine's UNAVAILABLE is about itself. At most half of the replicas are
    ejected, so a single one never is.

    One broken connection is enough: a dead replica has nothing in hand, so that balancing by the fewest requests sends
    it everything, retries included, until it is ejected or two of its health checks have failed.
    """
    engine = name.startswith("engine-")
    return {
        "split_external_local_origin_errors": True,
        "consecutive_local_origin_failure": 1,
        "enforcing_consecutive_local_origin_failure": 100,
        "consecutive_gateway_failure": 5,
        "enforcing_consecutive_gateway_failure": 100 if engine else 0,
        "enforcing_consecutive_5xx": 0,
        "enforcing_success_rate": 0,
        "enforcing_local_origin_success_rate": 0,
        "interval": "1s",
        # Times the number of ejections in a row.
        "base_ejection_time": "2s",
        "max_ejection_time": "30s",
        # An engine whose device failed may well pass its health checks; those must not call it back at once.
        "successful_active_health_check_uneject_host": not engine,
        "max_ejection_percent": 50,
        "always_eject_one_host": False,
    }


def _http2() -> dict[str, Any]:
    return {
        _HTTP2_OPTIONS: typed(
            http_protocol_options_pb2.HttpProtocolOptions,
            {
                "explicit_http_config": {
                    "http2_protocol_options": {
                        "initial_stream_window_size": _WINDOW_BYTES,
                        "initial_connection_window_size": 16 * _WINDOW_BYTES,
                        # A machine that vanished is noticed although no packet says so.
                        "connection_keepalive": {"interval": "30s", "timeout": "5s"},
                    }
                }
            },
        )
    }


def _by_name(cluster: str, host: str, port: int) -> dict[str, Any]:
    return {
        # Each address that the name has is a replica.
        "cluster_type": {
            "name": "envoy.clusters.dns",
            "typed_config": typed(
                dns_cluster_pb2.DnsCluster,
                {"dns_lookup_family": "V4_PREFERRED", "dns_refresh_rate": "2s", "respect_dns_ttl": False},
            ),
        },
        "load_assignment": _one_address(cluster, host, port),
    }


def _one_address(cluster: str, host: str, port: int) -> dict[str, Any]:
    endpoint = {"endpoint": {"address": socket_address(host, port)}}
    return {"cluster_name": cluster, "endpoints": [{"lb_endpoints": [endpoint]}]}


def _is_address(host: str) -> bool:
    try:
        ipaddress.ip_address(host)
    except ValueError:
        return False
    return True
