"""Spans: W3C context in and out of gRPC metadata, exported by OTLP in the background.

Spans leave from a queue on another thread. With no collector, or one that hangs, they are
dropped from that queue; a request never waits for them.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass

from opentelemetry import trace
from opentelemetry.context import Context
from opentelemetry.exporter.otlp.proto.grpc.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor
from opentelemetry.sdk.trace.sampling import ParentBased, TraceIdRatioBased
from opentelemetry.trace import Span, Tracer
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

_PROPAGATOR = TraceContextTextMapPropagator()
_FIELDS = frozenset(_PROPAGATOR.fields)

Metadata = Sequence[tuple[str, str | bytes]]
"""gRPC metadata."""


@dataclass(frozen=True)
class Tracing:
    """The tracer of a process."""

    tracer: Tracer
    provider: TracerProvider


@asynccontextmanager
async def open_tracing(
    service: str, *, instance: str, endpoint: str | None, sample_ratio: float = 1.0
) -> AsyncIterator[Tracing]:
    """Opens the tracer of this process; on exit what is queued is sent, for at most 2 s.

    Args:
        service: `service.name`, such as `tiermesh-router`.
        instance: `service.instance.id`, such as `router-0`.
        endpoint: OTLP/gRPC receiver, such as `http://127.0.0.1:4317`, or None to record nothing.
        sample_ratio: Share of traces without a caller's decision that is recorded.
    """
    resource = Resource.create({"service.name": service, "service.instance.id": instance})
    provider = TracerProvider(
        resource=resource, sampler=ParentBased(TraceIdRatioBased(sample_ratio if endpoint else 0.0))
    )
    if endpoint:
        exporter = OTLPSpanExporter(endpoint=endpoint, insecure=endpoint.startswith("http://"), timeout=2)
        provider.add_span_processor(
            BatchSpanProcessor(exporter, max_queue_size=8192, schedule_delay_millis=500, export_timeout_millis=2000)
        )
    try:
        yield Tracing(provider.get_tracer("tiermesh"), provider)
    finally:
        provider.force_flush(2000)
        provider.shutdown()


def extract_context(metadata: Metadata | None) -> Context:
    """Returns the caller's trace context from gRPC metadata; an empty one where there is none."""
    # Envoy sends an empty tracestate along, which would only be parsed.
    carrier = {key: value for key, value in metadata or () if key in _FIELDS and value and isinstance(value, str)}
    return _PROPAGATOR.extract(carrier, context=Context())


def inject_context(span: Span | None = None) -> tuple[tuple[str, str], ...]:
    """Returns gRPC metadata that carries `span`, or else the current one, to the next service."""
    carrier: dict[str, str] = {}
    _PROPAGATOR.inject(carrier, None if span is None else trace.set_span_in_context(span))
    return tuple(carrier.items())


def current_trace_id() -> str:
    """Returns the current W3C trace id as 32 hex digits, or an empty string."""
    context = trace.get_current_span().get_span_context()
    return format(context.trace_id, "032x") if context.is_valid else ""
