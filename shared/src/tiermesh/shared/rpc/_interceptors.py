"""What every server does around a handler.

Outermost first, and why in this order:

1. TraceInterceptor   opens the server span, so that everything below is inside it
2. ErrorInterceptor   the one place where errors become gRPC status; outside the budget, so that
                      a refused budget is reported like any other error
3. BudgetInterceptor  innermost, so that its clock starts just before the handler
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import aclosing
from typing import Any

import grpc
from opentelemetry.context import attach
from opentelemetry.trace import (
    Span,
    SpanKind,
    Status,
    StatusCode,
    Tracer,
    get_current_span,
    set_span_in_context,
    use_span,
)
from tiermesh.shared.budget import Budget, set_current_budget
from tiermesh.shared.errors import InternalError, TiermeshError
from tiermesh.shared.rpc._status import status_metadata
from tiermesh.shared.telemetry import extract_context, get_logger

Trailers = Callable[[str, TiermeshError], tuple[tuple[str, str | bytes], ...]]
"""Extra trailing metadata of a failed call, by full method name and error."""

_INFRASTRUCTURE = ("/grpc.health.", "/grpc.reflection.", "/opentelemetry.", "/xds.")
_log = get_logger(__name__)


class _AroundHandler(grpc.aio.ServerInterceptor):
    """Wraps unary-unary and unary-stream handlers; infrastructure services pass untouched.

    gRPC asks for the handler at every call. A server's methods do not change, so each is wrapped once.
    """

    def __init__(self) -> None:
        self._wrapped: dict[str, Any] = {}

    async def intercept_service(
        self,
        continuation: Callable[[grpc.HandlerCallDetails], Awaitable[Any]],
        handler_call_details: grpc.HandlerCallDetails,
    ) -> Any:
        handler = await continuation(handler_call_details)
        method = handler_call_details.method
        # Methods that do not exist are not kept: their names come from callers.
        if handler is None or method.startswith(_INFRASTRUCTURE) or handler.request_streaming:
            return handler
        wrapped = self._wrapped.get(method)
        if wrapped is None:
            wrapped = self._wrapped[method] = self._wrap(method, handler)
        return wrapped

    def _wrap(self, method: str, handler: Any) -> Any:
        codec = {
            "request_deserializer": handler.request_deserializer,
            "response_serializer": handler.response_serializer,
        }
        if handler.response_streaming:
            return grpc.unary_stream_rpc_method_handler(self._stream(method, handler.unary_stream), **codec)
        return grpc.unary_unary_rpc_method_handler(self._unary(method, handler.unary_unary), **codec)

    def _unary(self, method: str, inner: Any) -> Any:
        raise NotImplementedError

    def _stream(self, method: str, inner: Any) -> Any:
        raise NotImplementedError


class TraceInterceptor(_AroundHandler):
    """Continues the caller's trace with a server span."""

    def __init__(self, tracer: Tracer) -> None:
        super().__init__()
        self._tracer = tracer

    def _start(self, method: str, context: Any) -> Span:
        parent = extract_context(context.invocation_metadata())
        return self._tracer.start_span(
            method.removeprefix("/").rsplit(".", 1)[-1],
            context=parent,
            kind=SpanKind.SERVER,
            attributes={"rpc.system": "grpc", "rpc.method": method},
        )

    def _unary(self, method: str, inner: Any) -> Any:
        async def handle(request: Any, context: Any) -> Any:
            with use_span(
                self._start(method, context), end_on_exit=True, record_exception=False, set_status_on_exception=False
            ):
                return await inner(request, context)

        return handle

    def _stream(self, method: str, inner: Any) -> Any:
        async def handle(request: Any, context: Any) -> AsyncIterator[Any]:
            span = self._start(method, context)
            # Never detached: every call has a task of its own, whose context ends with it. An abandoned
            # stream is closed in another context, where detaching would only write errors into the log.
            attach(set_span_in_context(span))
            try:
                async with aclosing(inner(request, context)) as responses:
                    async for response in responses:
                        yield response
            finally:
                span.end()

        return handle


class ErrorInterceptor(_AroundHandler):
    """Turns errors into gRPC status with details; what is not ours becomes INTERNAL without its text."""

    def __init__(self, trailers: Trailers | None = None) -> None:
        super().__init__()
        self._trailers = trailers

    async def _abort(self, method: str, context: Any, error: TiermeshError) -> None:
        span = get_current_span()
        span.set_status(Status(StatusCode.ERROR, error.message))
        span.set_attribute("error.type", error.reason)
        extra = self._trailers(method, error) if self._trailers else ()
        await context.abort(error.row.status, error.message, (*status_metadata(error), *extra))

    def _unexpected(self, method: str, error: Exception) -> TiermeshError:
        _log.error("unexpected error in a handler", method=method, exc_info=error)
        return InternalError("an unexpected error; the server's log has it under this trace id")

    def _unary(self, method: str, inner: Any) -> Any:
        async def handle(request: Any, context: Any) -> Any:
            try:
                return await inner(request, context)
            except TiermeshError as error:
                await self._abort(method, context, error)
            except grpc.aio.AbortError:
                raise
            except Exception as error:
                await self._abort(method, context, self._unexpected(method, error))

        return handle

    def _stream(self, method: str, inner: Any) -> Any:
        async def handle(request: Any, context: Any) -> AsyncIterator[Any]:
            try:
                async with aclosing(inner(request, context)) as responses:
                    async for response in responses:
                        yield response
            except TiermeshError as error:
                await self._abort(method, context, error)
            except grpc.aio.AbortError:
                raise
            except Exception as error:
                await self._abort(method, context, self._unexpected(method, error))

        return handle


class BudgetInterceptor(_AroundHandler):
    """Makes the call's deadline available as `current_budget()`, and refuses a call whose deadline has passed."""

    def __init__(self, default_seconds: float) -> None:
        super().__init__()
        self._default = default_seconds

    def _begin(self, method: str, context: Any) -> None:
        left = context.time_remaining()
        budget = Budget.of(self._default if left is None else min(left, self._default))
        set_current_budget(budget)
        span = get_current_span()
        if span.is_recording():
            span.set_attribute("tiermesh.budget.in_ms", round(budget.remaining() * 1000, 1))
        budget.require(method)

    def _unary(self, method: str, inner: Any) -> Any:
        async def handle(request: Any, context: Any) -> Any:
            self._begin(method, context)
            return await inner(request, context)

        return handle

    def _stream(self, method: str, inner: Any) -> Any:
        async def handle(request: Any, context: Any) -> AsyncIterator[Any]:
            self._begin(method, context)
            async with aclosing(inner(request, context)) as responses:
                async for response in responses:
                    yield response

        return handle
