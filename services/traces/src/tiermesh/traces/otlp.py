"""OTLP spans as records.

Senders are any program with an OTLP exporter, so nothing is taken for granted: a span that makes
no sense is counted and left out, and the rest of its request is kept.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from opentelemetry.proto.collector.trace.v1 import trace_service_pb2
from opentelemetry.proto.trace.v1 import trace_pb2
from tiermesh.traces.attributes import LONGEST_TEXT, as_text, cut_attributes
from tiermesh.traces.records import SpanRecord

_TRACE_ID_BYTES, _SPAN_ID_BYTES = 16, 8
_KINDS = {
    trace_pb2.Span.SPAN_KIND_SERVER: "server",
    trace_pb2.Span.SPAN_KIND_CLIENT: "client",
    trace_pb2.Span.SPAN_KIND_PRODUCER: "producer",
    trace_pb2.Span.SPAN_KIND_CONSUMER: "consumer",
}
_LONGEST_SPAN_BYTES = 64 * 1024
"""Of one whose attributes are kept as they came."""
UNKNOWN_SERVICE = "unknown"


def read_spans(request: trace_service_pb2.ExportTraceServiceRequest) -> tuple[list[SpanRecord], int]:
    """Returns the spans of an export request, and how many were left out."""
    records: list[SpanRecord] = []
    rejected = 0
    for resource_spans in request.resource_spans:
        service = _service(resource_spans.resource.attributes)
        for scope_spans in resource_spans.scope_spans:
            for span in scope_spans.spans:
                if _sound(span):
                    records.append(_record(span, service))
                else:
                    rejected += 1
    return records, rejected


def _sound(span: Any) -> bool:
    return (
        len(span.trace_id) == _TRACE_ID_BYTES
        and any(span.trace_id)
        and len(span.span_id) == _SPAN_ID_BYTES
        and any(span.span_id)
        and len(span.parent_span_id) in {0, _SPAN_ID_BYTES}
    )


def _record(span: Any, service: str) -> SpanRecord:
    # Neither is shown.
    span.ClearField("events")
    span.ClearField("links")
    if span.ByteSize() > _LONGEST_SPAN_BYTES:
        cut_attributes(span)
    return SpanRecord(
        trace_id=span.trace_id.hex(),
        span_id=span.span_id.hex(),
        # A parent of zeros is how some senders write "none".
        parent_span_id=span.parent_span_id.hex() if any(span.parent_span_id) else "",
        name=span.name[:LONGEST_TEXT],
        service=service,
        kind=_KINDS.get(span.kind, "internal"),
        start_ns=span.start_time_unix_nano,
        end_ns=max(span.start_time_unix_nano, span.end_time_unix_nano),
        failed=span.status.code == trace_pb2.Status.STATUS_CODE_ERROR,
        encoded=span.SerializeToString(),
    )


def _service(attributes: Iterable[Any]) -> str:
    for item in attributes:
        if item.key == "service.name":
            return as_text(item.value)[:LONGEST_TEXT] or UNKNOWN_SERVICE
    return UNKNOWN_SERVICE
