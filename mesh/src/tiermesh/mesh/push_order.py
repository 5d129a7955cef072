"""The order in which a change is sent, so that nothing refers to what is not there (make before break)."""

from __future__ import annotations

from tiermesh.mesh.resource_type import ResourceType

PUSH_ORDER = (ResourceType.CLUSTER, ResourceType.ENDPOINTS, ResourceType.LISTENER, ResourceType.ROUTES)
"""Additions and changes: clusters, where they are, listeners, and last the routes that lead to them."""

REMOVAL_ORDER = tuple(reversed(PUSH_ORDER))
"""Removals: first the routes, last the clusters that they led to."""
