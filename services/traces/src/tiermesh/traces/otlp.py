"""OTLP spans as records.

Senders are any program with an OTLP exporter, so nothing is taken for granted: a span that makes
no sense is counted and left out, and the rest of its request is kept.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any

from opentelemetry.proto.collector.trace.v1 import trace_service_pb2
from opentelemetry.proto.common.v1 import common_pb2
from opentelemetry.proto.trace.v1 import trace_pb2
from tiermesh.traces.records import SpanRecord

_TRACE_ID_BYTES, _SPAN_ID_BYTES = 16, 8
_KINDS = {
    trace_pb2.Span.SPAN_KIND_SERVER: "server",
    trace_pb2.Span.SPAN_KIND_CLIENT: "client",
    trace_pb2.Span.SPAN_KIND_PRODUCER: "producer",
    trace_pb2.Span.SPAN_KIND_CONSUMER: "consumer",
}
_LONGEST_TEXT = 4096
_DEEPEST = 8
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
    attributes = {item.key: _text(item.value)[:_LONGEST_TEXT] for item in span.attributes}
    if span.status.message:
        attributes["otel.status_description"] = span.status.message[:_LONGEST_TEXT]
    return SpanRecord(
        trace_id=span.trace_id.hex(),
        span_id=span.span_id.hex(),
        # A parent of zeros is how some senders write "none".
        parent_span_id=span.parent_span_id.hex() if any(span.parent_span_id) else "",
        name=span.name[:_LONGEST_TEXT],
        service=service,
        kind=_KINDS.get(span.kind, "internal"),
        start_ns=span.start_time_unix_nano,
        end_ns=max(span.start_time_unix_nano, span.end_time_unix_nano),
        failed=span.status.code == trace_pb2.Status.STATUS_CODE_ERROR,
        attributes=attributes,
    )


def _service(attributes: Iterable[Any]) -> str:
    for item in attributes:
        if item.key == "service.name":
            return _text(item.value)[:_LONGEST_TEXT] or UNKNOWN_SERVICE
    return UNKNOWN_SERVICE


def _text(value: common_pb2.AnyValue) -> str:
    plain = _plain(value, 0)
    if isinstance(plain, str):
        return plain
    return "" if plain is None else json.dumps(plain, ensure_ascii=False)


def _plain(value: common_pb2.AnyValue, depth: int) -> Any:
    """Returns a value as JSON has it. Deep nesting is cut: it comes from outside and recursion has a limit."""
    which = value.WhichOneof("value")
    if which is None:
        return None
    if depth > _DEEPEST:
        return "…"
    if which == "array_value":
        return [_plain(item, depth + 1) for item in value.array_value.values]
    if which == "kvlist_value":
        return {item.key: _plain(item.value, depth + 1) for item in value.kvlist_value.values}
    if which == "bytes_value":
        return value.bytes_value.hex()
    return getattr(value, which)
