"""MeshService: the control plane as operators see it."""

from __future__ import annotations

from typing import Any

from google.protobuf import timestamp_pb2
from tiermesh.api.mesh.v1 import mesh_pb2, mesh_pb2_grpc
from tiermesh.mesh.ads import Subscriber, Subscribers
from tiermesh.mesh.publisher import Publisher
from tiermesh.shared.config import TiermeshConfig
from tiermesh.shared.endpoints import cluster_endpoints, cluster_names
from tiermesh.shared.errors import Unavailable


class MeshServicer(mesh_pb2_grpc.MeshServiceServicer):
    """`tiermesh.api.mesh.v1.MeshService`."""

    def __init__(self, publisher: Publisher, subscribers: Subscribers) -> None:
        self._publisher = publisher
        self._subscribers = subscribers

    async def GetStatus(self, request: mesh_pb2.GetStatusRequest, context: Any) -> mesh_pb2.GetStatusResponse:  # noqa: ARG002, N802 -- gRPC's signature
        """Describes what is published, what was refused, and who has what."""
        published = self._publisher.published
        if published is None:
            raise Unavailable(f"nothing has been published: {self._publisher.rejection}")
        time = timestamp_pb2.Timestamp()
        time.FromMilliseconds(round(published.wall_time * 1000))
        return mesh_pb2.GetStatusResponse(
            config_version=published.version,
            publish_time=time,
            rejection=self._publisher.rejection,
            clusters=_clusters(published.config),
            subscribers=[_subscriber(s) for s in self._subscribers],
        )


def _clusters(config: TiermeshConfig) -> list[mesh_pb2.Cluster]:
    discovery = config.discovery
    if discovery.mode == "dns":
        return [
            mesh_pb2.Cluster(
                name=name,
                endpoints=[f"{discovery.dns_prefix}{name}{discovery.dns_suffix}:{discovery.service_port}"],
            )
            for name in cluster_names(config)
        ]
    return [
        mesh_pb2.Cluster(name=name, endpoints=[str(e) for e in cluster_endpoints(config, name)])
        for name in cluster_names(config)
    ]


def _subscriber(subscriber: Subscriber) -> mesh_pb2.Subscriber:
    return mesh_pb2.Subscriber(
        node_id=subscriber.node_id,
        protocol=subscriber.protocol,
        acknowledged_versions={kind.name.lower(): version for kind, version in subscriber.acknowledged.items()},
        last_error=subscriber.last_error,
    )
