"""Looks at the certificates that a configuration names, and says what to do about each."""

from __future__ import annotations

from datetime import datetime

from tiermesh.mesh.local.doctor import Finding
from tiermesh.shared.config import ConfigError, TiermeshConfig

SOON_DAYS = 14
"""Sooner than this, something that should have put a new certificate there has not."""


def check_certificates(config: TiermeshConfig, now: datetime) -> list[Finding]:
    """Looks at the files of `tls`, where it is on.

    Args:
        config: The mesh's configuration.
        now: The present time, with its zone.
    """
    if not config.tls.names_files:
        return []
    from tiermesh.shared.tls.files import CertificateFiles, ingress_files, own_files  # noqa: PLC0415 -- imports a lot, for TLS alone

    findings: list[Finding] = []

    def look_at(files: CertificateFiles) -> None:
        try:
            _, facts = files.read(now)
        except ConfigError as error:
            findings.append(Finding("problem", str(error), "put a file there that can be used; peers refuse this one"))
            return
        where = f"{files.section}.certificate: {files.certificate}"
        if not facts.is_trusted:
            findings.append(
                Finding(
                    "warning",
                    f"{where} does not come from an authority of {files.trusted_ca}",
                    "that is right only while authorities change, and peers trust both",
                )
            )
        days = facts.days_left(now)
        if days < SOON_DAYS:
            findings.append(
                Finding(
                    "warning", f"{where}, or its last authority, ends in {days:.1f} days", "see why nothing renews it"
                )
            )
        else:
            findings.append(Finding("ok", f"{where} is good for {days:.0f} days"))

    # Which service this is, is not known here: any name will do.
    for files in (own_files(config, None), ingress_files(config)):
        if files is not None:
            look_at(files)
    return findings
