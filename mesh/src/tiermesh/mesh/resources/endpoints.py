"""Endpoints: where the replicas of a cluster listen."""

from __future__ import annotations

from collections.abc import Iterable

from envoy.config.endpoint.v3 import endpoint_pb2
from tiermesh.mesh.resources.message import make_message, socket_address
from tiermesh.shared.endpoints import Endpoint


def make_endpoints(cluster: str, endpoints: Iterable[Endpoint]) -> endpoint_pb2.ClusterLoadAssignment:
    """Returns the load assignment of a cluster.

    It has a locality and a weight because proxyless gRPC ignores endpoints without them.
    """
    return make_message(
        endpoint_pb2.ClusterLoadAssignment,
        {
            "cluster_name": cluster,
            "endpoints": [
                {
                    "locality": {"zone": "local"},
                    "load_balancing_weight": 1,
                    "lb_endpoints": [
                        {"endpoint": {"address": socket_address(e.host, e.port)}, "load_balancing_weight": 1}
                        for e in endpoints
                    ],
                }
            ],
        },
    )
