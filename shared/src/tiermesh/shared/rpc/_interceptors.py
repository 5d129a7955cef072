"""What every server does around a handler: a span, a budget, and one place where errors become gRPC status.

One layer for all, since each layer costs every message of every stream. Outermost first, and why in this order:

1. span     so that everything below is inside it
2. errors   outside the rest, so that a refused peer or budget is reported like any other error
3. peer     with mutual TLS: nothing is done for a process that may not call
4. budget   innermost, so that its clock starts just before the handler
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import aclosing
from typing import Any

import grpc
from opentelemetry.context import attach
from opentelemetry.trace import Span, SpanKind, Status, StatusCode, Tracer, set_span_in_context
from tiermesh.shared.budget import Budget, set_current_budget
from tiermesh.shared.errors import InternalError, TiermeshError
from tiermesh.shared.rpc._guarded import Admit, guarded
from tiermesh.shared.rpc._status import status_metadata
from tiermesh.shared.telemetry import extract_context, get_logger

Trailers = Callable[[str, TiermeshError], tuple[tuple[str, str | bytes], ...]]
"""Extra trailing metadata of a failed call, by full method name and error."""

_INFRASTRUCTURE = ("/grpc.health.", "/grpc.reflection.", "/opentelemetry.", "/xds.")
_log = get_logger(__name__)


class CallInterceptor(grpc.aio.ServerInterceptor):
    """Wraps unary-unary and unary-stream handlers; infrastructure services pass untouched.

    gRPC asks for the handler at every call. A server's methods do not change, so each is wrapped once.

    Args:
        tracer: Records server spans.
        default_seconds: Longest budget of a call, and that of calls without a deadline.
        trailers: Extra trailing metadata of failed calls.
        admit: Raises a TiermeshError for a call whose peer may not make it, by full method name and gRPC context.
    """

    def __init__(
        self,
        tracer: Tracer,
        *,
        default_seconds: float,
        trailers: Trailers | None = None,
        admit: Admit | None = None,
    ) -> None:
        self._tracer = tracer
        self._default = default_seconds
        self._trailers = trailers
        self._admit = admit
        self._wrapped: dict[str, Any] = {}

    async def intercept_service(
        self,
        continuation: Callable[[grpc.HandlerCallDetails], Awaitable[Any]],
        handler_call_details: grpc.HandlerCallDetails,
    ) -> Any:
        handler = await continuation(handler_call_details)
        method = handler_call_details.method
        # Methods that do not exist are not kept: their names come from callers.
        if handler is None:
            return handler
        bare = method.startswith(_INFRASTRUCTURE) or handler.request_streaming
        if bare and self._admit is None:
            return handler
        wrapped = self._wrapped.get(method)
        if wrapped is None:
            made = guarded(method, handler, self._admit) if bare and self._admit else self._wrap(method, handler)
            wrapped = self._wrapped[method] = made
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
        async def handle(request: Any, context: Any) -> Any:
            span = self._open_span(method, context)
            try:
                if self._admit is not None:
                    self._admit(method, context)
                self._begin_budget(method, context, span)
                return await inner(request, context)
            except grpc.aio.AbortError:
                raise
            except Exception as error:
                await self._abort(method, context, span, error)
            finally:
                span.end()

        return handle

    def _stream(self, method: str, inner: Any) -> Any:
        async def handle(request: Any, context: Any) -> AsyncIterator[Any]:
            span = self._open_span(method, context)
            try:
                if self._admit is not None:
                    self._admit(method, context)
                self._begin_budget(method, context, span)
                async with aclosing(inner(request, context)) as responses:
                    async for response in responses:
                        yield response
            except grpc.aio.AbortError:
                raise
            except Exception as error:
                await self._abort(method, context, span, error)
            finally:
                span.end()

        return handle

    def _open_span(self, method: str, context: Any) -> Span:
        """Continues the caller's trace, and makes the new span the current one for the rest of the call."""
        span = self._tracer.start_span(
            method.removeprefix("/").rsplit(".", 1)[-1],
            context=extract_context(context.invocation_metadata()),
            kind=SpanKind.SERVER,
            attributes={"rpc.system": "grpc", "rpc.method": method},
        )
        # Never detached: every call has a task of its own, whose context ends with it. An abandoned
        # stream is closed in another context, where detaching would only write errors into the log.
        attach(set_span_in_context(span))
        return span

    def _begin_budget(self, method: str, context: Any, span: Span) -> None:
        """Makes the call's deadline available as `current_budget()`.

        Raises:
            BudgetExhausted: the deadline has passed.
        """
        left = context.time_remaining()
        budget = Budget.of(self._default if left is None else min(left, self._default))
        set_current_budget(budget)
        if span.is_recording():
            span.set_attribute("tiermesh.budget.in_ms", round(budget.remaining() * 1000, 1))
        budget.require(method)

    async def _abort(self, method: str, context: Any, span: Span, error: Exception) -> None:
        """Ends the call with the status of `error`; what is not ours becomes INTERNAL without its text."""
        if isinstance(error, TiermeshError):
            told = error
        else:
            _log.error("unexpected error in a handler", method=method, exc_info=error)
            told = InternalError("an unexpected error; the server's log has it under this trace id")
        span.set_status(Status(StatusCode.ERROR, told.message))
        span.set_attribute("error.type", told.reason)
        extra = self._trailers(method, told) if self._trailers else ()
        await context.abort(told.row.status, told.message, (*status_metadata(told), *extra))
