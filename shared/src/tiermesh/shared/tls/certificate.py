"""What is wrong with a certificate and its key, and for how long they last. Looks at bytes, reads no files."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Literal

from cryptography import x509
from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat, load_pem_private_key
from tiermesh.shared.tls.identity import Identity
from tiermesh.shared.tls.pem import Pem

Key = Literal["certificate", "private_key", "trusted_ca"]
_DAY = timedelta(days=1)


class CertificateFlaw(Exception):
    """A file cannot be used; the message says why and what to do, and never quotes a key."""

    def __init__(self, key: Key, message: str) -> None:
        super().__init__(message)
        self.key = key
        """Which of the files."""


@dataclass(frozen=True, slots=True)
class Facts:
    """What a sound certificate says."""

    names: tuple[Identity, ...]
    """Its subject alternative names."""
    expires: datetime
    """When it, or a certificate that goes out with it, ends."""
    authority_expires: datetime | None
    """When the last authority that is trusted ends; None where no authorities are given."""
    is_trusted: bool
    """Whether it comes from one of the authorities that are trusted; True where none are given."""

    def days_left(self, now: datetime) -> float:
        """Returns days until the first of the certificate and its authorities ends; negative once it has."""
        return (min(filter(None, (self.expires, self.authority_expires))) - now) / _DAY


def examine(pem: Pem, now: datetime, *, identity: Identity | None = None) -> Facts:
    """Looks at everything that would make peers, or this process, refuse the files.

    Args:
        pem: Contents of the files.
        now: The present time, with its zone.
        identity: A name that the certificate must bear.

    Raises:
        CertificateFlaw: a file cannot be used.
    """
    chain = _certificates(pem.certificate, "certificate")
    leaf = chain[0]
    _check_key(leaf, pem.private_key)
    for one in chain:
        _check_time(one, now, "certificate")
    names = _names(leaf)
    if identity is not None and identity not in names:
        found = ", ".join(map(str, names)) or "none"
        raise CertificateFlaw(
            "certificate",
            f"is not for {identity} (its names: {found}), so peers would refuse it; issue it with that {identity.kind.upper()} "
            "name, or set tls.identity to how your certificates name services",
        )
    authority_expires, is_trusted = None, True
    if pem.trusted_ca is not None:
        authorities = _certificates(pem.trusted_ca, "trusted_ca")
        authority_expires = max(one.not_valid_after_utc for one in authorities)
        if authority_expires <= now:
            raise CertificateFlaw(
                "trusted_ca",
                f"holds no authority that is still valid: the last ended {authority_expires:%Y-%m-%d}; put the new one in",
            )
        is_trusted = _comes_from(chain, authorities)
    return Facts(names, min(one.not_valid_after_utc for one in chain), authority_expires, is_trusted)


def _certificates(pem: bytes, key: Key) -> list[x509.Certificate]:
    try:
        return x509.load_pem_x509_certificates(pem)
    except ValueError:
        raise CertificateFlaw(
            key, "holds no certificate in PEM (-----BEGIN CERTIFICATE-----); give a file that does"
        ) from None


def _check_key(leaf: x509.Certificate, pem: bytes) -> None:
    try:
        key = load_pem_private_key(pem, None)
    except TypeError:
        raise CertificateFlaw("private_key", "is protected by a passphrase; give it without one") from None
    except (ValueError, UnsupportedAlgorithm):
        raise CertificateFlaw(
            "private_key", "holds no private key in PEM (-----BEGIN PRIVATE KEY-----); give a file that does"
        ) from None
    spki = Encoding.DER, PublicFormat.SubjectPublicKeyInfo
    if key.public_key().public_bytes(*spki) != leaf.public_key().public_bytes(*spki):
        raise CertificateFlaw(
            "private_key",
            "is not the key of tls.certificate's first certificate; give the two that were issued together",
        )


def _check_time(one: x509.Certificate, now: datetime, key: Key) -> None:
    if one.not_valid_after_utc <= now:
        raise CertificateFlaw(key, f"expired {one.not_valid_after_utc:%Y-%m-%d %H:%M} UTC; put a new one there")
    if one.not_valid_before_utc > now:
        raise CertificateFlaw(
            key,
            f"is valid from {one.not_valid_before_utc:%Y-%m-%d %H:%M} UTC only; put a valid one there, or set this machine's clock",
        )


def _names(leaf: x509.Certificate) -> tuple[Identity, ...]:
    try:
        found = leaf.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    except x509.ExtensionNotFound:
        return ()
    return (
        *(Identity("uri", name) for name in found.get_values_for_type(x509.UniformResourceIdentifier)),
        *(Identity("dns", name) for name in found.get_values_for_type(x509.DNSName)),
    )


def _comes_from(chain: Sequence[x509.Certificate], authorities: Sequence[x509.Certificate]) -> bool:
    """Follows signatures from the certificate, over those that go out with it, to an authority."""
    last = chain[0]
    for issuer in chain[1:]:
        if last in authorities or any(_is_issuer(one, last) for one in authorities):
            return True
        if not _is_issuer(issuer, last):
            return False
        last = issuer
    return last in authorities or any(_is_issuer(one, last) for one in authorities)


def _is_issuer(issuer: x509.Certificate, issued: x509.Certificate) -> bool:
    try:
        issued.verify_directly_issued_by(issuer)
    except Exception:  # it raises what the kind of key does; each means no
        return False
    return True
