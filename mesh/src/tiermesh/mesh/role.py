"""Which part of the mesh an Envoy plays."""

from __future__ import annotations

from typing import Literal, get_args

Role = Literal["local", "ingress", "sidecar"]
"""`local`: both doors in one Envoy, on one machine. `ingress`: the door for callers.
`sidecar`: the door for calls between services, one beside each service."""

ROLES: tuple[Role, ...] = get_args(Role)
"""Every role, in a fixed order."""


def has_ingress(role: Role) -> bool:
    """Returns whether Envoys of this role take requests from callers."""
    return role in {"local", "ingress"}


def has_mesh(role: Role) -> bool:
    """Returns whether Envoys of this role carry calls between services."""
    return role in {"local", "sidecar"}
