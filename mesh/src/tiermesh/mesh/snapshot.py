"""A snapshot: everything that one kind of Envoy is to have, immutable, versioned by content, checked."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from types import MappingProxyType
from typing import Any

from envoy.extensions.filters.network.http_connection_manager.v3 import http_connection_manager_pb2 as hcm_pb2
from google.protobuf import any_pb2
from google.protobuf.message import Message
from tiermesh.mesh.resource_type import ResourceType
from tiermesh.mesh.resources.message import content_version


class InconsistentSnapshot(Exception):
    """A snapshot refers to resources that it does not hold; the message names each."""


@dataclass(frozen=True, slots=True)
class Resource:
    """One resource."""

    name: str
    version: str
    """Depends on the content alone, so that it is the same after a restart of the control plane."""
    message: Message
    packed: any_pb2.Any

    @classmethod
    def of(cls, message: Any) -> Resource:
        """Wraps a Cluster, ClusterLoadAssignment, Listener or RouteConfiguration."""
        packed = any_pb2.Any()
        packed.Pack(message, deterministic=True)
        name = message.cluster_name if hasattr(message, "cluster_name") else message.name
        return cls(name, content_version(message), message, packed)


@dataclass(frozen=True)
class Snapshot:
    """Resources by type and name."""

    resources: Mapping[ResourceType, Mapping[str, Resource]]

    @classmethod
    def of(
        cls,
        *,
        clusters: Iterable[Message] = (),
        endpoints: Iterable[Message] = (),
        listeners: Iterable[Message] = (),
        routes: Iterable[Message] = (),
    ) -> Snapshot:
        """Builds a snapshot from messages."""
        given = {
            ResourceType.CLUSTER: clusters,
            ResourceType.ENDPOINTS: endpoints,
            ResourceType.LISTENER: listeners,
            ResourceType.ROUTES: routes,
        }
        return cls(
            MappingProxyType(
                {
                    kind: MappingProxyType({r.name: r for r in map(Resource.of, messages)})
                    for kind, messages in given.items()
                }
            )
        )

    def of_type(self, kind: ResourceType) -> Mapping[str, Resource]:
        """Returns the resources of one type by name."""
        return self.resources[kind]

    @cached_property
    def version(self) -> str:
        """Version of the whole."""
        return subset_version(r for kind in ResourceType for r in self.of_type(kind).values())

    def check(self) -> None:
        """Makes sure that whatever is referred to is there, and that nothing is left over.

        Raises:
            InconsistentSnapshot: naming every problem.
        """
        problems = list(self._problems())
        if problems:
            raise InconsistentSnapshot("; ".join(problems))

    def _problems(self) -> Iterable[str]:
        clusters = self.of_type(ResourceType.CLUSTER)
        by_eds = {
            message.eds_cluster_config.service_name or name
            for name, message in ((n, _any(r)) for n, r in clusters.items())
            if message.WhichOneof("cluster_discovery_type") == "type" and message.type == message.EDS
        }
        yield from _compare("cluster", by_eds, "endpoints", self.of_type(ResourceType.ENDPOINTS))
        wanted = {name for r in self.of_type(ResourceType.LISTENER).values() for name in _route_names(_any(r)) if name}
        yield from _compare("listener", wanted, "routes", self.of_type(ResourceType.ROUTES))
        for name, resource in self.of_type(ResourceType.ROUTES).items():
            for host in _any(resource).virtual_hosts:
                for route in host.routes:
                    target = route.route.cluster
                    if route.HasField("route") and target not in clusters:
                        yield f"routes {name!r}, host {host.name!r}: cluster {target!r} is not in the snapshot"


def subset_version(resources: Iterable[Resource]) -> str:
    """Returns the version of some resources together: 16 hex digits that depend on their content alone."""
    lines = sorted(f"{r.packed.type_url} {r.name} {r.version}" for r in resources)
    return hashlib.sha256("\n".join(lines).encode()).hexdigest()[:16]


def _any(resource: Resource) -> Any:
    # Generated messages have no types of their own.
    return resource.message


def _compare(owner: str, wanted: set[str], what: str, present: Mapping[str, Resource]) -> Iterable[str]:
    for name in sorted(wanted - present.keys()):
        yield f"{owner} refers to {what} {name!r}, which the snapshot lacks"
    for name in sorted(present.keys() - wanted):
        yield f"{what} {name!r} belong to no {owner}"


def _route_names(listener: Any) -> Iterable[str]:
    for chain in listener.filter_chains:
        for network_filter in chain.filters:
            manager = hcm_pb2.HttpConnectionManager()
            if network_filter.typed_config.Unpack(manager):
                yield manager.rds.route_config_name
