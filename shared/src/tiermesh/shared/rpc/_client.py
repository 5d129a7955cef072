"""Outgoing calls: each has a budget, a span, typed errors, and is cancelled when its caller stops.

OpenTelemetry's own grpc.aio interceptors are not used: they are reported to swallow
cancellation, on which freeing an engine depends.
"""

from __future__ import annotations

import math
from collections.abc import AsyncGenerator, Callable, Sequence
from typing import Any, Protocol, TypeVar

import grpc
from opentelemetry.trace import Link, Span, SpanKind, Status, StatusCode, Tracer
from tiermesh.shared.budget import Budget
from tiermesh.shared.errors import TiermeshError
from tiermesh.shared.rpc._status import error_from_rpc
from tiermesh.shared.telemetry import inject_context

_Request = TypeVar("_Request", contravariant=True)  # noqa: PLC0105 -- the variance is an accident of the Protocol
_Response = TypeVar("_Response")

MAX_MESSAGE_BYTES = 64 * 1024 * 1024
"""gRPC's own limit of 4 MiB is below what the ingress may be configured to take."""

_OPTIONS: tuple[tuple[str, Any], ...] = (
    ("grpc.max_receive_message_length", MAX_MESSAGE_BYTES),
    ("grpc.max_send_message_length", MAX_MESSAGE_BYTES),
    # Retries live in Envoy alone.
    ("grpc.enable_retries", 0),
    ("grpc.keepalive_time_ms", 30_000),
    ("grpc.keepalive_timeout_ms", 5_000),
    # A restarted Envoy is found again within a second instead of two minutes.
    ("grpc.initial_reconnect_backoff_ms", 50),
    ("grpc.max_reconnect_backoff_ms", 1_000),
)


class _UnaryUnary(Protocol[_Request, _Response]):
    def __call__(
        self, request: _Request, *, timeout: float | None = None, metadata: Any = None
    ) -> grpc.aio.UnaryUnaryCall[Any, _Response]: ...


class _UnaryStream(Protocol[_Request, _Response]):
    def __call__(
        self, request: _Request, *, timeout: float | None = None, metadata: Any = None
    ) -> grpc.aio.UnaryStreamCall[Any, _Response]: ...


def open_channel(target: str, *, authority: str | None = None) -> grpc.aio.Channel:
    """Opens a channel that connects on first use; close it when done.

    Args:
        target: gRPC target, such as `127.0.0.1:18001` or `xds:///engine-l1`.
        authority: Cluster name by which Envoy's mesh listener routes, such as `engine-l1`.
    """
    extra: tuple[tuple[str, Any], ...] = (("grpc.default_authority", authority),) if authority else ()
    return grpc.aio.insecure_channel(target, options=(*_OPTIONS, *extra))


_WIRE_UNITS = ((10.0, 0.01), (100.0, 0.1), (1000.0, 1.0), (10_000.0, 10.0), (math.inf, 100.0))
"""Up to this many seconds, gRPC rounds up to this step."""


def wire_timeout(seconds: float) -> float:
    """Returns the longest timeout that is not longer on the wire than `seconds`.

    gRPC writes `grpc-timeout` with two or three significant digits and rounds up: 59.93 s arrive
    as 60 s at the next hop, which would then have more time than its caller.
    """
    if seconds < 1.0:
        # Whole milliseconds on the wire. A timeout of 0 would make the call endless instead of late.
        return max(seconds, 0.001)
    unit = next(unit for below, unit in _WIRE_UNITS if seconds < below)
    # gRPC converts between clocks on the way, which may add a millisecond: stay below the step.
    return math.floor(seconds / unit) * unit - 0.002


async def call_unary(
    method: _UnaryUnary[_Request, _Response],
    request: _Request,
    *,
    name: str,
    budget: Budget,
    tracer: Tracer,
    links: Sequence[Link] = (),
) -> _Response:
    """Makes a unary call within a budget.

    Args:
        method: Method of an async stub.
        request: The request.
        name: Span name, such as `CacheService/Lookup`.
        budget: Its remaining time becomes the call's gRPC deadline.
        tracer: Records the client span.
        links: Other spans that the call is made for, besides the current one.

    Raises:
        TiermeshError: the call failed, or nothing was left of the budget.
    """
    span = tracer.start_span(name, kind=SpanKind.CLIENT, links=links)
    try:
        timeout = wire_timeout(budget.require(name))
        call = method(request, timeout=timeout, metadata=inject_context(span))
        try:
            return await call
        except grpc.aio.AioRpcError as error:
            raise _failed(span, error) from error
        finally:
            # Only has an effect when this task is being cancelled.
            call.cancel()
    finally:
        span.end()


async def call_stream(
    method: _UnaryStream[_Request, _Response],
    request: _Request,
    *,
    name: str,
    budget: Budget,
    tracer: Tracer,
    on_span: Callable[[Span], None] | None = None,
    metadata: Sequence[tuple[str, str]] = (),
) -> AsyncGenerator[_Response, None]:
    """Makes a server-streaming call within a budget, and cancels it when the reader stops early.

    Wrap it in `contextlib.aclosing`, so that leaving the loop cancels at once. Arguments and
    errors are those of `call_unary`; `on_span` is given the client span to add attributes to, and
    `metadata` is sent besides the trace's own.
    """
    # Never the current span: a generator shares its caller's context at every yield, and may be closed from another one.
    span = tracer.start_span(name, kind=SpanKind.CLIENT)
    try:
        if on_span is not None:
            on_span(span)
        timeout = wire_timeout(budget.require(name))
        call = method(request, timeout=timeout, metadata=(*inject_context(span), *metadata))
        try:
            async for response in call:
                yield response
        except grpc.aio.AioRpcError as error:
            raise _failed(span, error) from error
        finally:
            # Leaving an `async for` over a call does not cancel it.
            call.cancel()
    finally:
        span.end()


def _failed(span: Span, error: grpc.aio.AioRpcError) -> TiermeshError:
    failure = error_from_rpc(error)
    span.set_status(Status(StatusCode.ERROR, failure.message))
    span.set_attribute("rpc.grpc.status_code", error.code().value[0])
    span.set_attribute("error.type", failure.reason)
    return failure
