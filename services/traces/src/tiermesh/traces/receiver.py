"""OTLP/gRPC in: what senders of spans see.

Requests are taken as bytes, so that they can be forwarded unchanged and a request that is no
protobuf gets the status that OTLP asks for. The shared interceptors leave this service alone.
"""

from __future__ import annotations

from typing import Any, Protocol

import grpc
from google.protobuf.message import DecodeError
from opentelemetry.proto.collector.trace.v1 import trace_service_pb2
from tiermesh.shared.rpc import Service
from tiermesh.traces.otlp import read_spans
from tiermesh.traces.store import TraceStore

SERVICE_NAME = trace_service_pb2.DESCRIPTOR.services_by_name["TraceService"].full_name
FORWARDED_BY = "x-tiermesh-forwarded-by"
"""Metadata of forwarded exports: the trace stores they have been through."""


class Outlet(Protocol):
    """Where received requests go on to."""

    def offer(self, request: bytes) -> None:
        """Takes a request; returns at once."""
        ...


class OtlpReceiver:
    """Keeps the spans of export requests and hands the requests on.

    Args:
        store: Keeps the spans.
        outlet: Takes the requests, or None.
        identity: Name of this trace store; requests that were here before are not handed on.
    """

    def __init__(self, store: TraceStore, outlet: Outlet | None, *, identity: str) -> None:
        self._store = store
        self._outlet = outlet
        self._identity = identity

    async def export(self, request: bytes, context: Any) -> trace_service_pb2.ExportTraceServiceResponse:
        """Handles TraceService/Export."""
        try:
            parsed = trace_service_pb2.ExportTraceServiceRequest.FromString(request)
        except DecodeError:
            await context.abort(grpc.StatusCode.INVALID_ARGUMENT, "the request is no ExportTraceServiceRequest")
            raise
        spans, rejected = read_spans(parsed)
        self._store.add(spans)
        if self._outlet is not None and spans and not self._was_here(context):
            self._outlet.offer(request)
        response = trace_service_pb2.ExportTraceServiceResponse()
        if rejected:
            response.partial_success.rejected_spans = rejected
            response.partial_success.error_message = "trace_id must have 16 bytes and span_id 8, not all of them zero"
        return response

    def _was_here(self, context: Any) -> bool:
        return any(
            key == FORWARDED_BY and value == self._identity for key, value in context.invocation_metadata() or ()
        )

    @property
    def service(self) -> Service:
        """The service to host."""
        handler: grpc.RpcMethodHandler[bytes, Any] = grpc.unary_unary_rpc_method_handler(
            self.export,
            response_serializer=trace_service_pb2.ExportTraceServiceResponse.SerializeToString,
        )
        generic = grpc.method_handlers_generic_handler(SERVICE_NAME, {"Export": handler})
        return Service(SERVICE_NAME, lambda server: server.add_generic_rpc_handlers((generic,)))
