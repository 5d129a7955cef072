"""TraceService: records to proto."""

from __future__ import annotations

import re
from typing import Any

from tiermesh.api.trace.v1 import trace_pb2, trace_pb2_grpc
from tiermesh.shared.errors import InvalidRequest, UnknownTrace
from tiermesh.traces.records import SpanRecord
from tiermesh.traces.store import Summary, TraceStore

_DEFAULT_PAGE = 20
_TRACE_ID = re.compile(r"[0-9a-f]{32}")


class TraceServicer(trace_pb2_grpc.TraceServiceServicer):
    """Serves a `TraceStore`."""

    def __init__(self, store: TraceStore) -> None:
        self._store = store

    async def ListTraces(self, request: trace_pb2.ListTracesRequest, context: Any) -> trace_pb2.ListTracesResponse:  # noqa: ARG002, N802 -- gRPC's signature
        """Lists recent traces, newest first."""
        if request.page_size < 0:
            raise InvalidRequest(f"page_size is {request.page_size}; it must not be negative", field="page_size")
        summaries = self._store.latest(request.page_size or _DEFAULT_PAGE)
        return trace_pb2.ListTracesResponse(traces=[_make_summary(summary) for summary in summaries])

    async def GetTrace(self, request: trace_pb2.GetTraceRequest, context: Any) -> trace_pb2.GetTraceResponse:  # noqa: ARG002, N802 -- gRPC's signature
        """Returns one trace."""
        trace_id = request.trace_id.lower()
        if not _TRACE_ID.fullmatch(trace_id):
            raise InvalidRequest("trace_id must be 32 hex digits", field="trace_id")
        spans = self._store.get(trace_id)
        if spans is None:
            raise UnknownTrace(f"trace {trace_id} is not kept; it was never received, or newer ones displaced it")
        return trace_pb2.GetTraceResponse(spans=[_make_span(span) for span in spans])


def _make_summary(summary: Summary) -> trace_pb2.TraceSummary:
    made = trace_pb2.TraceSummary(
        trace_id=summary.trace_id,
        root_name=summary.root_name,
        span_count=summary.span_count,
        failed=summary.failed,
    )
    made.start_time.FromNanoseconds(summary.start_ns)
    made.duration.FromNanoseconds(summary.end_ns - summary.start_ns)
    return made


def _make_span(span: SpanRecord) -> trace_pb2.Span:
    made = trace_pb2.Span(
        span_id=span.span_id,
        parent_span_id=span.parent_span_id,
        name=span.name,
        service=span.service,
        kind=span.kind,
        failed=span.failed,
        attributes=span.attributes,
    )
    made.start_time.FromNanoseconds(span.start_ns)
    made.duration.FromNanoseconds(span.end_ns - span.start_ns)
    return made
