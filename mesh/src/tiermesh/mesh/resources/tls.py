"""TLS of listeners and clusters. They name files beside Envoy that say where certificates are, never what is in them.

Those files are Envoy's file-based SDS (`tiermesh.mesh.sds` writes them): Envoy watches the folders of the certificates,
takes new ones for new connections, and leaves those that are open alone.
"""

from __future__ import annotations

from typing import Any

from envoy.extensions.transport_sockets.tls.v3 import tls_pb2
from tiermesh.mesh.resources.message import typed
from tiermesh.mesh.sds import AUTHORITIES, INGRESS_CERTIFICATE, OWN_CERTIFICATE, sds_path
from tiermesh.shared.config import TiermeshConfig
from tiermesh.shared.tls import identity_of

_VERSIONS = {"1.2": "TLSv1_2", "1.3": "TLSv1_3"}


def make_peer_tls(config: TiermeshConfig, service: str) -> dict[str, Any]:
    """Returns the transport socket of a cluster whose replicas must prove to be `service`, as Envoy proves who it is.

    Args:
        config: The mesh's configuration.
        service: A cluster of the mesh, or `mesh`, the control plane.
    """
    expected = identity_of(config, service)
    return _socket(
        tls_pb2.UpstreamTlsContext,
        {
            # gRPC complains in its log of a name that its certificate lacks, as one by SPIFFE would.
            **({"sni": expected.name} if expected.kind == "dns" else {}),
            "common_tls_context": {
                # Both ends are ours, and both know 1.3.
                "tls_params": {
                    "tls_minimum_protocol_version": "TLSv1_3",
                    "tls_maximum_protocol_version": "TLSv1_3",
                },
                "alpn_protocols": ["h2"],
                "tls_certificate_sds_secret_configs": [_secret(config, OWN_CERTIFICATE)],
                "combined_validation_context": {
                    "default_validation_context": {
                        "match_typed_subject_alt_names": [
                            {"san_type": expected.kind.upper(), "matcher": {"exact": expected.name}}
                        ]
                    },
                    "validation_context_sds_secret_config": _secret(config, AUTHORITIES),
                },
            },
        },
    )


def make_door_tls(config: TiermeshConfig) -> dict[str, Any]:
    """Returns the transport socket of the ingress: callers see the public name's certificate, and show none."""
    return _socket(
        tls_pb2.DownstreamTlsContext,
        {
            "common_tls_context": {
                "tls_params": {
                    "tls_minimum_protocol_version": _VERSIONS[config.tls.ingress.minimum_version],
                    "tls_maximum_protocol_version": "TLSv1_3",
                },
                "alpn_protocols": ["h2", "http/1.1"],
                "tls_certificate_sds_secret_configs": [_secret(config, INGRESS_CERTIFICATE)],
            },
        },
    )


def _secret(config: TiermeshConfig, name: str) -> dict[str, Any]:
    return {
        "name": name,
        "sds_config": {"path_config_source": {"path": str(sds_path(config, name))}, "resource_api_version": "V3"},
    }


def _socket(kind: Any, context: dict[str, Any]) -> dict[str, Any]:
    return {"name": "envoy.transport_sockets.tls", "typed_config": typed(kind, context)}
