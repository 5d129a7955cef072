"""The files that a process is known by: read, looked at, and read again when they have been replaced."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from tiermesh.shared.clock import Clock
from tiermesh.shared.config import ConfigError, TiermeshConfig
from tiermesh.shared.telemetry import get_logger
from tiermesh.shared.tls.certificate import CertificateFlaw, Facts, examine
from tiermesh.shared.tls.identity import Identity, identity_of
from tiermesh.shared.tls.pem import Pem

_log = get_logger(__name__)
_Stamp = tuple[tuple[int, int, int], ...]


@dataclass(frozen=True, slots=True)
class CertificateFiles:
    """Where a certificate is, and whose it must be."""

    section: str
    """Section of the configuration that names the files, `tls` or `tls.ingress`, for messages."""
    certificate: Path
    private_key: Path
    trusted_ca: Path | None = None
    identity: Identity | None = None

    @property
    def paths(self) -> tuple[Path, ...]:
        """Every file."""
        return (self.certificate, self.private_key, *([self.trusted_ca] if self.trusted_ca else []))

    def read(self, now: datetime) -> tuple[Pem, Facts]:
        """Reads and examines the files.

        Raises:
            ConfigError: one cannot be used; the message names key, file and what to do.
        """
        pem = Pem(
            self._bytes("certificate", self.certificate),
            self._bytes("private_key", self.private_key),
            self._bytes("trusted_ca", self.trusted_ca) if self.trusted_ca else None,
        )
        try:
            return pem, examine(pem, now, identity=self.identity)
        except CertificateFlaw as flaw:
            raise ConfigError(f"{self.section}.{flaw.key}: {getattr(self, flaw.key)} {flaw}") from None

    def stamp(self) -> _Stamp | None:
        """Returns what changes when a file is replaced, links on the way included; None while one is away."""
        try:
            found = [path.stat() for path in self.paths]
        except OSError:
            return None
        return tuple((one.st_ino, one.st_mtime_ns, one.st_size) for one in found)

    def _bytes(self, key: str, path: Path) -> bytes:
        try:
            return path.read_bytes()
        except OSError as error:
            raise ConfigError(
                f"{self.section}.{key}: {path} cannot be read ({error.strerror}); mount the file there, readable by this "
                "process, or name the one that is"
            ) from None


def own_files(config: TiermeshConfig, service: str | None) -> CertificateFiles | None:
    """Returns the files of a service for mutual TLS, or None where that is off.

    Args:
        config: The mesh's configuration.
        service: Whose certificate it must be; None for anyone's.
    """
    tls = config.tls
    if not tls.mutual:
        return None
    assert tls.certificate is not None
    assert tls.private_key is not None
    identity = None if service is None else identity_of(config, service)
    return CertificateFiles("tls", tls.certificate, tls.private_key, tls.trusted_ca, identity)


def ingress_files(config: TiermeshConfig) -> CertificateFiles | None:
    """Returns the files of the ingress's public name, or None where it takes no TLS."""
    ingress = config.tls.ingress
    if not ingress.enabled:
        return None
    assert ingress.certificate is not None
    assert ingress.private_key is not None
    return CertificateFiles("tls.ingress", ingress.certificate, ingress.private_key)


class FollowedFiles:
    """The newest sound contents of the files.

    Nothing watches them: whoever shakes hands asks, which costs a look at each file's entry in its folder.

    Args:
        files: Where they are.
        clock: Tells what has expired.

    Raises:
        ConfigError: they cannot be used at the start. Later, what was sound before stays.
    """

    def __init__(self, files: CertificateFiles, clock: Clock) -> None:
        self._files = files
        self._clock = clock
        self._stamp = files.stamp()
        self._newest = files.read(self._now())

    def newest(self) -> tuple[Pem, Facts]:
        """Returns the contents and what they say: the very objects of the last time, where nothing sound is new.

        May be called from any thread.
        """
        # What changes while the files are read is seen the next time.
        stamp = self._files.stamp()
        if stamp is not None and stamp != self._stamp:
            self._stamp = stamp
            try:
                self._newest = self._files.read(self._now())
            except ConfigError as error:
                _log.error("new certificates cannot be used; those before stay", error=str(error))
            else:
                _log.info("took new certificates", expires=self._newest[1].expires.isoformat())
        return self._newest

    def days_left(self) -> float:
        """Returns days until what is in use ends; negative once it has."""
        return self.newest()[1].days_left(self._now())

    def _now(self) -> datetime:
        return datetime.fromtimestamp(self._clock.wall(), UTC)
