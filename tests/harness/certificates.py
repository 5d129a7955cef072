"""Authorities and certificates made on the spot, and volumes that hold them as Kubernetes' do."""

from __future__ import annotations

import ssl
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

import grpc
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import BestAvailableEncryption, Encoding, NoEncryption, PrivateFormat
from cryptography.x509.oid import NameOID
from tiermesh.shared.tls.pem import Pem

DAY = timedelta(days=1)
KEY, CERTIFICATE, AUTHORITY = "tls.key", "tls.crt", "ca.crt"
"""Names as in a Secret of cert-manager."""


@dataclass(frozen=True)
class Issued:
    """A certificate with its key."""

    certificate: x509.Certificate
    key: ec.EllipticCurvePrivateKey

    @property
    def pem(self) -> bytes:
        """The certificate in PEM."""
        return self.certificate.public_bytes(Encoding.PEM)

    def key_pem(self, passphrase: bytes | None = None) -> bytes:
        """The key in PEM."""
        encryption = BestAvailableEncryption(passphrase) if passphrase else NoEncryption()
        return self.key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, encryption)


class Authority:
    """An authority that issues certificates, by another one or by itself."""

    def __init__(self, name: str = "Test authority", *, by: Authority | None = None) -> None:
        key = ec.generate_private_key(ec.SECP256R1())
        self.issued = Issued(_sign(name, key, by=by.issued if by else None, is_authority=True), key)

    @property
    def pem(self) -> bytes:
        """Its own certificate in PEM."""
        return self.issued.pem

    def issue(
        self,
        *names: str,
        starts: timedelta = -DAY,
        ends: timedelta = 90 * DAY,
        key: ec.EllipticCurvePrivateKey | None = None,
    ) -> Issued:
        """Issues a certificate for DNS names and URIs, valid from and to some time from now."""
        own = key or ec.generate_private_key(ec.SECP256R1())
        return Issued(
            _sign(names[0] if names else "nobody", own, *names, by=self.issued, starts=starts, ends=ends), own
        )

    def pem_for(self, *names: str, trusted: bytes | None = None) -> Pem:
        """Issues a certificate, and returns the three files of a pod that trusts this authority, or others."""
        issued = self.issue(*names)
        return Pem(issued.pem, issued.key_pem(), trusted or self.pem)

    def client_context(self) -> ssl.SSLContext:
        """Returns what an HTTP client needs to trust it."""
        context = ssl.create_default_context()
        context.load_verify_locations(cadata=self.pem.decode())
        return context


def _sign(
    name: str,
    key: ec.EllipticCurvePrivateKey,
    *names: str,
    by: Issued | None,
    is_authority: bool = False,
    starts: timedelta = -DAY,
    ends: timedelta = 90 * DAY,
) -> x509.Certificate:
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name[:64])])
    issuer_key = by.key if by else key
    now = datetime.now(UTC)
    builder = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(by.certificate.subject if by else subject)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now + starts)
        .not_valid_after(now + ends)
        .add_extension(x509.BasicConstraints(ca=is_authority, path_length=None), critical=True)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
        .add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(issuer_key.public_key()), critical=False)
    )
    if names:
        kinds = [x509.UniformResourceIdentifier(n) if "://" in n else x509.DNSName(n) for n in names]
        builder = builder.add_extension(x509.SubjectAlternativeName(kinds), critical=False)
    return builder.sign(issuer_key, hashes.SHA256())


class SecretVolume:
    """A folder that a Secret is mounted at: its files are links through `..data`, which is replaced at once."""

    def __init__(self, folder: Path, pem: Pem) -> None:
        self.folder = folder
        self._count = 0
        folder.mkdir(parents=True)
        self.put(pem)
        for name in (CERTIFICATE, KEY, AUTHORITY):
            (folder / name).symlink_to(Path("..data", name))

    def put(self, pem: Pem) -> None:
        """Replaces the files, as the kubelet does."""
        self._count += 1
        fresh = self.folder / f"..{self._count}"
        fresh.mkdir()
        for name, content in ((CERTIFICATE, pem.certificate), (KEY, pem.private_key), (AUTHORITY, pem.trusted_ca)):
            (fresh / name).write_bytes(content or b"")
        link = self.folder / "..data_tmp"
        link.symlink_to(fresh.name)
        link.rename(self.folder / "..data")

    @property
    def settings(self) -> dict[str, str]:
        """The keys of the section `tls` that name the files."""
        return {
            "certificate": str(self.folder / CERTIFICATE),
            "private_key": str(self.folder / KEY),
            "trusted_ca": str(self.folder / AUTHORITY),
        }


def channel_credentials(pem: Pem) -> grpc.ChannelCredentials:
    """Returns a gRPC client's credentials."""
    return grpc.ssl_channel_credentials(pem.trusted_ca, pem.private_key, pem.certificate)
