"""Where the operator's collector is."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import unquote, urlsplit

from tiermesh.shared.config import ConfigError, TiermeshConfig
from tiermesh.shared.endpoints import collector_endpoint

_DEFAULT_PORT = 4317
_THIS_MACHINE = frozenset({"localhost", "127.0.0.1", "::1", "0.0.0.0", "::"})


@dataclass(frozen=True, slots=True)
class CollectorAddress:
    """An OTLP/gRPC receiver."""

    host: str
    port: int
    secure: bool
    """Whether to use TLS."""
    headers: tuple[tuple[str, str], ...] = ()
    """gRPC metadata of every export, such as an API key. Never log it."""
    certificate: Path | None = None
    """File with the authorities to trust; None means those of gRPC."""

    @property
    def target(self) -> str:
        """As a gRPC target."""
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


def find_collector(config: TiermeshConfig, environ: Mapping[str, str]) -> CollectorAddress | None:
    """Returns the operator's collector, or None where there is none.

    OTEL_EXPORTER_OTLP_HEADERS and OTEL_EXPORTER_OTLP_CERTIFICATE apply to it.

    Raises:
        ConfigError: the endpoint is not an http or https URL.
    """
    endpoint = collector_endpoint(config, environ)
    if not endpoint:
        return None
    hint = "OTEL_EXPORTER_OTLP_ENDPOINT or tracing.otlp_endpoint: write http://host:4317, or https:// for TLS"
    try:
        url = urlsplit(endpoint)
        port = url.port or _DEFAULT_PORT
    except ValueError as error:
        raise ConfigError(f"{hint} ({error})") from None
    if url.scheme not in {"http", "https"} or not url.hostname:
        raise ConfigError(f"{hint} (given: {endpoint!r})")
    certificate = environ.get("OTEL_EXPORTER_OTLP_CERTIFICATE")
    return CollectorAddress(
        url.hostname,
        port,
        url.scheme == "https",
        _headers(environ.get("OTEL_EXPORTER_OTLP_HEADERS", "")),
        Path(certificate) if certificate else None,
    )


def is_myself(collector: CollectorAddress, own_address: str, *, hostname: str = "") -> bool:
    """Returns whether the collector is the trace store itself, to which forwarding would never end.

    Args:
        collector: Where to forward.
        own_address: Where the trace store listens, `host:port`.
        hostname: This machine's name.
    """
    own_host, _, own_port = own_address.rpartition(":")
    names = _THIS_MACHINE | {own_host.strip("[]").lower()} | ({hostname.lower()} if hostname else set())
    return str(collector.port) == own_port and collector.host.lower() in names


def _headers(text: str) -> tuple[tuple[str, str], ...]:
    """Reads `key=value,key=value` with percent-encoded values, as OpenTelemetry specifies."""
    pairs = (item.partition("=") for item in text.split(",") if "=" in item)
    return tuple((key.strip().lower(), unquote(value.strip())) for key, _, value in pairs if key.strip())
