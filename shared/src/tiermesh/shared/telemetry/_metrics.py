"""Metrics: exported by OTLP from another thread, where there is a receiver for them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from opentelemetry.exporter.otlp.proto.grpc.metric_exporter import OTLPMetricExporter
from opentelemetry.metrics import Meter
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import PeriodicExportingMetricReader
from opentelemetry.sdk.resources import Resource

SECONDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 25.0, 60.0, 300.0)
"""Buckets of durations, in seconds: from a cache hit to a batch answer. OpenTelemetry's own begin at 5 s."""
_SHUTDOWN_MS = 2000


@contextmanager
def open_meter(service: str, *, instance: str, endpoint: str | None, interval_s: float) -> Iterator[Meter | None]:
    """Opens the meter of this process, or none where nobody receives what it would measure.

    Args:
        service: `service.name`, such as `tiermesh-router`.
        instance: `service.instance.id`, such as `router-0`.
        endpoint: OTLP/gRPC receiver of metrics.
        interval_s: Seconds between two exports.
    """
    if not endpoint:
        yield None
        return
    exporter = OTLPMetricExporter(endpoint=endpoint, insecure=endpoint.startswith("http://"), timeout=2)
    reader = PeriodicExportingMetricReader(
        exporter, export_interval_millis=interval_s * 1000, export_timeout_millis=_SHUTDOWN_MS
    )
    provider = MeterProvider(
        [reader],
        resource=Resource.create({"service.name": service, "service.instance.id": instance}),
        shutdown_on_exit=False,
    )
    try:
        yield provider.get_meter("tiermesh")
    finally:
        provider.shutdown(_SHUTDOWN_MS)
