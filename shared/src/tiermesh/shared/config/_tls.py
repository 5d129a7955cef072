"""TLS: which connections are encrypted, and the files that say who a process is."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal, Self

from pydantic import Field, model_validator
from tiermesh.shared.config._section import Section


def _require(section: Section, *keys: str, switch: str) -> None:
    if missing := [key for key in keys if getattr(section, key) is None]:
        raise ValueError(
            f"{switch}: true needs {', '.join(missing)}: name the file(s), such as /etc/tiermesh-tls/tls.crt"
        )


def _same_folder(certificate: Path | None, private_key: Path | None) -> None:
    # Envoy watches one folder for both, so that it never takes the new one of one with the old one of the other.
    if certificate is not None and private_key is not None and certificate.parent != private_key.parent:
        raise ValueError(
            f"certificate and private_key must be in one folder, which is watched: {certificate.parent} and "
            f"{private_key.parent} differ"
        )


class IngressTlsConfig(Section):
    """TLS at the ingress, by the certificate of its public name. Callers show API keys, no certificates."""

    enabled: bool = False
    """Whether the ingress takes TLS, and nothing else."""
    certificate: Path | None = None
    """PEM file with the certificate of the public name, then those between it and its authority. Relative to this file."""
    private_key: Path | None = None
    """PEM file with its key, in the same folder."""
    minimum_version: Literal["1.2", "1.3"] = "1.2"
    """Oldest version of TLS that callers may speak."""

    @model_validator(mode="after")
    def _has_files(self) -> Self:
        if self.enabled:
            _require(self, "certificate", "private_key", switch="enabled")
        _same_folder(self.certificate, self.private_key)
        return self


class TlsConfig(Section):
    """Mutual TLS 1.3 between pods, and TLS at the ingress; only with `discovery.mode: dns`. Files are followed."""

    mesh: bool = False
    """Whether calls to services are mutual TLS: from the ingress to the router, from the router to everything behind it."""
    control_plane: bool = False
    """Whether Envoys and the control plane talk in mutual TLS. API keys go that way."""
    certificate: Path | None = None
    """PEM file with this process's certificate, then those between it and its authority: every pod has its own there.
    Relative to this file."""
    private_key: Path | None = None
    """PEM file with its key, without a passphrase, in the same folder."""
    trusted_ca: Path | None = None
    """PEM file with the authorities that peers' certificates must come from; during a change of authority, both."""
    identity: Annotated[str, Field(pattern=r"^$|^[^\s]*\{service\}[^\s]*$")] = ""
    """Name that a service's certificate must bear (subject alternative name), with `{service}` for the service, such as
    `spiffe://cluster.local/ns/inference/sa/{service}`. Empty: its DNS name as `discovery` makes it."""
    ingress: IngressTlsConfig = IngressTlsConfig()
    envoy_folder: Path = Path("/etc/envoy")
    """Folder that `python -m tiermesh.mesh bootstrap --out` writes Envoy's files to; the same beside every Envoy."""

    @property
    def names_files(self) -> bool:
        """Whether there are certificates to look at."""
        return self.mutual or self.ingress.enabled

    @property
    def mutual(self) -> bool:
        """Whether anything is mutual TLS, for which processes need certificates."""
        return self.mesh or self.control_plane

    @model_validator(mode="after")
    def _has_files(self) -> Self:
        if self.mutual:
            _require(self, "certificate", "private_key", "trusted_ca", switch="mesh" if self.mesh else "control_plane")
        _same_folder(self.certificate, self.private_key)
        return self
