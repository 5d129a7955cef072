"""Who is who: the name in a service's certificate, and whom each service lets call."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from tiermesh.shared.config import TiermeshConfig
from tiermesh.shared.endpoints import CONTROL_PLANE, ROUTER, cluster_host, cluster_names

INGRESS = "ingress"
"""The Envoys that callers come in by, in names of certificates."""


@dataclass(frozen=True, slots=True)
class Identity:
    """A subject alternative name."""

    kind: Literal["dns", "uri"]
    """`uri` is a SPIFFE ID, of which a certificate has one."""
    name: str

    def __str__(self) -> str:
        return self.name


def identity_of(config: TiermeshConfig, service: str) -> Identity:
    """Returns the name that certificates of a service bear: of a cluster, `ingress` or `mesh`, the control plane."""
    if config.tls.identity:
        name = config.tls.identity.replace("{service}", service)
        return Identity("uri" if "://" in name else "dns", name)
    return Identity("dns", cluster_host(config, service))


def callers_of(config: TiermeshConfig, service: str) -> Mapping[Identity, str]:
    """Returns who may call a service, by the name in the certificate.

    The ingress calls the router, the router everything behind it, and every Envoy asks the control plane what to do.
    """
    return {identity_of(config, caller): caller for caller in _callers(config, service)}


def members_of(config: TiermeshConfig) -> Mapping[Identity, str]:
    """Returns everyone in the mesh. Each may ask whether a service is well: every Envoy checks what it could call."""
    return {identity_of(config, one): one for one in (INGRESS, CONTROL_PLANE, *cluster_names(config))}


def _callers(config: TiermeshConfig, service: str) -> Sequence[str]:
    if service == CONTROL_PLANE:
        return (INGRESS, *cluster_names(config))
    return (INGRESS,) if service == ROUTER else (ROUTER,)
