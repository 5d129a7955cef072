"""Mutual TLS of a server: its certificate, kept fresh, and who may call it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import grpc
from tiermesh.shared.errors import PeerForbidden
from tiermesh.shared.telemetry import get_logger
from tiermesh.shared.tls import Identity, Pem

_log = get_logger(__name__)

_EVERY_MEMBER = ("/grpc.health.v1.Health/", "/xds.service.orca.v3.OpenRcaService/")
"""Every Envoy asks whatever it could call whether it is well, and engines how busy they are."""


_MOST_TOLD = 1000


@dataclass(frozen=True, slots=True)
class ServerTls:
    """What a server needs to take nothing but mutual TLS.

    gRPC accepts TLS 1.2 and 1.3, and has no switch; Envoys of the mesh offer 1.3 alone.
    """

    newest: Callable[[], Pem]
    """Returns the certificate to show and the authorities to trust, from any thread: the same object until they change."""
    callers: Mapping[Identity, str]
    """Who may call."""
    members: Mapping[Identity, str]
    """Who may ask whether it is well."""
    probe_address: str | None = None
    """`host:port` of a plain port that answers health checks and nothing else, for kubelets, which have no certificate."""
    _told: set[tuple[str, ...]] = field(default_factory=set, init=False, repr=False)
    """Refusals that are in the log; each is written once, since a peer that asks at all asks for ever."""

    def credentials(self) -> grpc.ServerCredentials:
        """Returns gRPC's credentials, which look for new files at each handshake."""
        given = self.newest()

        def fetch() -> grpc.ServerCertificateConfiguration | None:
            nonlocal given
            found = self.newest()
            if found is given:
                return None
            given = found
            return _configuration(found)

        return grpc.dynamic_ssl_server_credentials(
            _configuration(given),
            fetch,  # type: ignore[arg-type] # the stubs do not know None, which means no change
            require_client_authentication=True,
        )

    def admit(self, method: str, context: Any) -> None:
        """Lets a call pass, by the names in its peer's certificate.

        Raises:
            PeerForbidden: none of them may make this call.
        """
        shown = peer_names(context.auth_context())
        allowed = self.members if method.startswith(_EVERY_MEMBER) else self.callers
        if not any(name in allowed for name in shown):
            names = ", ".join(map(str, shown)) or "no name"
            if (names, method) not in self._told and len(self._told) < _MOST_TOLD:
                self._told.add((names, method))
                _log.warning("refused a peer", method=method, peer=names)
            raise PeerForbidden(
                f"the caller's certificate is for {names}; {method} is open to {', '.join(map(str, allowed))}"
            )


def peer_names(auth_context: Mapping[str, Any]) -> list[Identity]:
    """Returns the subject alternative names of a peer, from what gRPC knows of its connection."""
    return [
        *(Identity("uri", name.decode(errors="replace")) for name in auth_context.get("peer_uri", ())),
        *(Identity("dns", name.decode(errors="replace")) for name in auth_context.get("peer_dns", ())),
    ]


def _configuration(pem: Pem) -> grpc.ServerCertificateConfiguration:
    return grpc.ssl_server_certificate_configuration(
        [(pem.private_key, pem.certificate)], root_certificates=pem.trusted_ca
    )
