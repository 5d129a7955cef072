"""What tells an Envoy where its certificates are: small files beside its bootstrap, in the form of its SDS."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from envoy.extensions.transport_sockets.tls.v3 import secret_pb2
from tiermesh.mesh.resources.message import typed
from tiermesh.mesh.role import Role, has_ingress
from tiermesh.shared.config import TiermeshConfig

OWN_CERTIFICATE, AUTHORITIES, INGRESS_CERTIFICATE = "own-certificate", "authorities", "ingress-certificate"
"""Names of secrets, and stems of their files."""


def sds_path(config: TiermeshConfig, name: str) -> Path:
    """Returns where an Envoy finds the file of a secret."""
    return config.tls.envoy_folder / f"{name}.yaml"


def make_secrets(config: TiermeshConfig, role: Role) -> Mapping[str, dict[str, Any]]:
    """Returns the files that an Envoy needs, by the name of their secret, as documents to be written as YAML.

    They hold paths alone. The folders are watched, not the files: Kubernetes puts all files of a volume behind one
    symbolic link, and replaces the link.
    """
    tls = config.tls
    found: dict[str, dict[str, Any]] = {}
    if tls.mutual:
        assert tls.certificate is not None
        assert tls.private_key is not None
        assert tls.trusted_ca is not None
        found[OWN_CERTIFICATE] = _certificate(OWN_CERTIFICATE, tls.certificate, tls.private_key)
        context = {"trusted_ca": {"filename": str(tls.trusted_ca)}, "watched_directory": _folder(tls.trusted_ca)}
        found[AUTHORITIES] = _document({"name": AUTHORITIES, "validation_context": context})
    if tls.ingress.enabled and has_ingress(role):
        assert tls.ingress.certificate is not None
        assert tls.ingress.private_key is not None
        found[INGRESS_CERTIFICATE] = _certificate(INGRESS_CERTIFICATE, tls.ingress.certificate, tls.ingress.private_key)
    return found


def _certificate(name: str, certificate: Path, private_key: Path) -> dict[str, Any]:
    files = {
        "certificate_chain": {"filename": str(certificate)},
        "private_key": {"filename": str(private_key)},
        "watched_directory": _folder(certificate),
    }
    return _document({"name": name, "tls_certificate": files})


def _folder(file: Path) -> dict[str, str]:
    return {"path": str(file.parent)}


def _document(secret: dict[str, Any]) -> dict[str, Any]:
    return {"resources": [typed(secret_pb2.Secret, secret)]}
