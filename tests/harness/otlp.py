"""A real OTLP/gRPC receiver in this process, as a collector or Jaeger would be."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

import grpc
from opentelemetry.proto.collector.metrics.v1 import metrics_service_pb2, metrics_service_pb2_grpc
from opentelemetry.proto.collector.trace.v1 import trace_service_pb2, trace_service_pb2_grpc


@dataclass(frozen=True)
class ReceivedSpan:
    """One span as it arrived."""

    trace_id: str
    span_id: str
    parent_span_id: str
    name: str
    service: str
    kind: int
    failed: bool
    start_ns: int
    end_ns: int
    attributes: dict[str, object] = field(hash=False)


class OtlpReceiver(trace_service_pb2_grpc.TraceServiceServicer):
    """Records every span. Clear `answering` to hang; set `refusal` to answer with a status."""

    def __init__(self) -> None:
        self.spans: list[ReceivedSpan] = []
        self.metadata: list[dict[str, str]] = []
        """Of each export."""
        self.answering = asyncio.Event()
        self.answering.set()
        self.refusal: grpc.StatusCode | None = None
        self.calls = 0
        """Exports begun."""
        self._changed = asyncio.Condition()

    async def Export(self, request, context):
        """Records the spans of a request."""
        async with self._changed:
            self.calls += 1
            self._changed.notify_all()
        await self.answering.wait()
        if self.refusal is not None:
            await context.abort(self.refusal, "told to refuse")
        async with self._changed:
            self.spans.extend(read_request(request))
            self.metadata.append(dict(context.invocation_metadata()))
            self._changed.notify_all()
        return trace_service_pb2.ExportTraceServiceResponse()

    async def until(self, condition: Callable[[], object], *, within_s: float = 60.0) -> None:
        """Waits until something is so; it is looked at whenever a call or a span arrives.

        Raises:
            TimeoutError: it was not so within `within_s` seconds.
        """
        async with asyncio.timeout(within_s), self._changed:
            await self._changed.wait_for(condition)

    def named(self, name: str) -> list[ReceivedSpan]:
        """Returns the spans of that name."""
        return [span for span in self.spans if span.name == name]

    def of_trace(self, trace_id: str) -> list[ReceivedSpan]:
        """Returns the spans of one trace, in order of start."""
        return sorted((s for s in self.spans if s.trace_id == trace_id), key=lambda s: s.start_ns)

    async def trace(self, trace_id: str, names: Iterable[str], *, within_s: float = 60.0) -> list[ReceivedSpan]:
        """Waits until a trace has spans of all these names, and returns all of its spans.

        Raises:
            TimeoutError: it had not within `within_s` seconds.
        """
        wanted = set(names)
        await self.until(lambda: wanted <= {s.name for s in self.of_trace(trace_id)}, within_s=within_s)
        return self.of_trace(trace_id)


class MetricsReceiver(metrics_service_pb2_grpc.MetricsServiceServicer):
    """Remembers which metrics came, of which service, with which attributes."""

    def __init__(self) -> None:
        self.attributes: dict[tuple[str, str], frozenset[tuple[tuple[str, object], ...]]] = {}
        """Sets of attributes seen, by service and name of the metric; other threads may look at each."""
        self._changed = asyncio.Condition()

    async def Export(self, request, context):
        """Records the metrics of a request."""
        async with self._changed:
            for resource_metrics in request.resource_metrics:
                resource = {item.key: item.value.string_value for item in resource_metrics.resource.attributes}
                for metric in (m for scope in resource_metrics.scope_metrics for m in scope.metrics):
                    name = (resource.get("service.name", ""), metric.name)
                    points = getattr(metric, metric.WhichOneof("data")).data_points
                    fresh = {tuple(sorted((a.key, _value(a.value)) for a in point.attributes)) for point in points}
                    self.attributes[name] = self.attributes.get(name, frozenset()) | fresh
            self._changed.notify_all()
        return metrics_service_pb2.ExportMetricsServiceResponse()

    async def until(self, condition: Callable[[], object], *, within_s: float = 60.0) -> None:
        """Waits until something is so; it is looked at whenever metrics arrive.

        Raises:
            TimeoutError: it was not so within `within_s` seconds.
        """
        async with asyncio.timeout(within_s), self._changed:
            await self._changed.wait_for(condition)


@dataclass(frozen=True)
class RunningOtlp:
    """A receiver that listens."""

    receiver: OtlpReceiver
    metrics: MetricsReceiver
    port: int

    @property
    def endpoint(self) -> str:
        """For OTEL_EXPORTER_OTLP_ENDPOINT."""
        return f"http://127.0.0.1:{self.port}"


@asynccontextmanager
async def running_otlp(*, port: int = 0, receiver: OtlpReceiver | None = None) -> AsyncIterator[RunningOtlp]:
    """Listens for OTLP on a port, by default a free one."""
    receiver = receiver or OtlpReceiver()
    server = grpc.aio.server(options=[("grpc.so_reuseport", 0), ("grpc.max_receive_message_length", -1)])
    metrics = MetricsReceiver()
    trace_service_pb2_grpc.add_TraceServiceServicer_to_server(receiver, server)
    metrics_service_pb2_grpc.add_MetricsServiceServicer_to_server(metrics, server)
    bound = server.add_insecure_port(f"127.0.0.1:{port}")
    await server.start()
    try:
        yield RunningOtlp(receiver, metrics, bound)
    finally:
        receiver.answering.set()
        await server.stop(0)


def orphans(spans: Iterable[ReceivedSpan], *, outside: Iterable[str] = ()) -> list[ReceivedSpan]:
    """Returns the spans whose parent is neither among them nor one of the span ids in `outside`.

    A connected tree has one, its root, or none where the root's parent is the caller's own span.
    """
    spans = list(spans)
    known = {span.span_id for span in spans} | set(outside)
    return [span for span in spans if span.parent_span_id not in known]


def read_request(request: trace_service_pb2.ExportTraceServiceRequest) -> list[ReceivedSpan]:
    """Returns the spans of an export request."""
    found = []
    for resource_spans in request.resource_spans:
        resource = {item.key: item.value.string_value for item in resource_spans.resource.attributes}
        for scope_spans in resource_spans.scope_spans:
            for span in scope_spans.spans:
                attributes = {item.key: _value(item.value) for item in span.attributes}
                found.append(
                    ReceivedSpan(
                        span.trace_id.hex(),
                        span.span_id.hex(),
                        span.parent_span_id.hex(),
                        span.name,
                        resource.get("service.name", ""),
                        span.kind,
                        span.status.code == 2,
                        span.start_time_unix_nano,
                        span.end_time_unix_nano,
                        attributes,
                    )
                )
    return found


def _value(value) -> object:
    which = value.WhichOneof("value")
    if which == "array_value":
        return [_value(item) for item in value.array_value.values]
    return getattr(value, which) if which else None
