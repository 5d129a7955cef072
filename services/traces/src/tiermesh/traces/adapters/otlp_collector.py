"""An OTLP/gRPC receiver as the collector."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager

import grpc
from tiermesh.shared.config import ConfigError
from tiermesh.traces.collector import CollectorAddress
from tiermesh.traces.ports import CollectorRefused, CollectorUnavailable

EXPORT_METHOD = "/opentelemetry.proto.collector.trace.v1.TraceService/Export"
_TIMEOUT_S = 5.0
_S = grpc.StatusCode
_RETRYABLE = frozenset(
    {
        _S.CANCELLED,
        _S.DEADLINE_EXCEEDED,
        _S.RESOURCE_EXHAUSTED,
        _S.ABORTED,
        _S.OUT_OF_RANGE,
        _S.UNAVAILABLE,
        _S.DATA_LOSS,
    }
)
"""As the OTLP specification lists them."""
_OPTIONS = (
    ("grpc.max_send_message_length", -1),
    ("grpc.enable_retries", 0),
    # A collector that appears is found within a second instead of two minutes.
    ("grpc.initial_reconnect_backoff_ms", 100),
    ("grpc.max_reconnect_backoff_ms", 1_000),
)


class OtlpCollector:
    """A `Collector` behind OTLP/gRPC. Requests pass as the bytes that were received."""

    def __init__(
        self, channel: grpc.aio.Channel, metadata: Sequence[tuple[str, str]], *, timeout_s: float = _TIMEOUT_S
    ) -> None:
        self._export: grpc.aio.UnaryUnaryMultiCallable[bytes, bytes] = channel.unary_unary(EXPORT_METHOD)
        self._metadata = tuple(metadata)
        self._timeout_s = timeout_s

    async def export(self, request: bytes) -> None:
        """Delivers a serialized ExportTraceServiceRequest.

        Raises:
            CollectorUnavailable: trying again can help.
            CollectorRefused: trying again cannot help.
        """
        try:
            await self._export(request, timeout=self._timeout_s, metadata=self._metadata)
        except grpc.aio.AioRpcError as error:
            failure = CollectorUnavailable if error.code() in _RETRYABLE else CollectorRefused
            raise failure(f"{error.code().name}: {error.details()}") from error


@asynccontextmanager
async def open_otlp_collector(
    address: CollectorAddress, *, metadata: Sequence[tuple[str, str]] = (), timeout_s: float = _TIMEOUT_S
) -> AsyncIterator[OtlpCollector]:
    """Opens a channel that connects on first use.

    Args:
        address: The receiver.
        metadata: Sent with every export, beside the address's own headers.
        timeout_s: Longest wait for one export.

    Raises:
        ConfigError: the certificate file cannot be read.
    """
    async with _open_channel(address) as channel:
        yield OtlpCollector(channel, (*address.headers, *metadata), timeout_s=timeout_s)


def _open_channel(address: CollectorAddress) -> grpc.aio.Channel:
    if not address.secure:
        return grpc.aio.insecure_channel(address.target, options=_OPTIONS)
    try:
        roots = address.certificate.read_bytes() if address.certificate else None
    except OSError as error:
        raise ConfigError(f"OTEL_EXPORTER_OTLP_CERTIFICATE: {address.certificate}: {error.strerror}") from None
    return grpc.aio.secure_channel(address.target, grpc.ssl_channel_credentials(roots), options=_OPTIONS)
