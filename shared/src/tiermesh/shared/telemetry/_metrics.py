"""Metrics: exported by OTLP from another thread, where the environment names a receiver for them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from opentelemetry.exporter.otlp.proto.grpc.metric_exporter import OTLPMetricExporter
from opentelemetry.metrics import Meter, NoOpMeterProvider
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import PeriodicExportingMetricReader
from opentelemetry.sdk.resources import Resource

METRICS_ENDPOINT = "OTEL_EXPORTER_OTLP_METRICS_ENDPOINT"
"""OTLP/gRPC receiver of metrics. Not that of traces: Jaeger, for one, takes no metrics."""
_SHUTDOWN_MS = 2000


@contextmanager
def open_metrics(service: str, *, instance: str, environ: Mapping[str, str]) -> Iterator[Meter]:
    """Opens the meter of this process; without a receiver it measures nothing and costs nothing.

    Args:
        service: `service.name`, such as `tiermesh-router`.
        instance: `service.instance.id`, such as `router-0`.
        environ: Environment; `METRICS_ENDPOINT` in it names the receiver.
    """
    endpoint = environ.get(METRICS_ENDPOINT)
    if not endpoint:
        yield NoOpMeterProvider().get_meter("tiermesh")
        return
    exporter = OTLPMetricExporter(endpoint=endpoint, insecure=endpoint.startswith("http://"), timeout=2)
    provider = MeterProvider(
        [PeriodicExportingMetricReader(exporter, export_timeout_millis=_SHUTDOWN_MS)],
        resource=Resource.create({"service.name": service, "service.instance.id": instance}),
        shutdown_on_exit=False,
    )
    try:
        yield provider.get_meter("tiermesh")
    finally:
        provider.shutdown(_SHUTDOWN_MS)
