"""xDS resources as pure functions of the configuration."""

from tiermesh.mesh.resources.clusters import make_cluster, make_collector_cluster
from tiermesh.mesh.resources.endpoints import make_endpoints
from tiermesh.mesh.resources.ingress_listener import make_ingress_listener
from tiermesh.mesh.resources.mesh_listener import make_mesh_listener
from tiermesh.mesh.resources.routes import make_ingress_routes, make_mesh_routes

__all__ = [
    "make_cluster",
    "make_collector_cluster",
    "make_endpoints",
    "make_ingress_listener",
    "make_ingress_routes",
    "make_mesh_listener",
    "make_mesh_routes",
]
