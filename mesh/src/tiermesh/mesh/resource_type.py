"""The four kinds of xDS resource that the mesh uses."""

from __future__ import annotations

from enum import Enum

_PREFIX = "type.googleapis.com/"


class ResourceType(Enum):
    """A kind of resource, by its type URL."""

    CLUSTER = _PREFIX + "envoy.config.cluster.v3.Cluster"
    ENDPOINTS = _PREFIX + "envoy.config.endpoint.v3.ClusterLoadAssignment"
    LISTENER = _PREFIX + "envoy.config.listener.v3.Listener"
    ROUTES = _PREFIX + "envoy.config.route.v3.RouteConfiguration"

    @property
    def whole(self) -> bool:
        """Whether a state-of-the-world response holds every resource, so that one left out is removed."""
        return self in {ResourceType.CLUSTER, ResourceType.LISTENER}
