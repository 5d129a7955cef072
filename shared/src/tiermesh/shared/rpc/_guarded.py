"""Handlers of infrastructure and of request streams, behind nothing but the question who calls."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import aclosing
from inspect import isasyncgenfunction
from typing import Any

import grpc
from tiermesh.shared.errors import TiermeshError
from tiermesh.shared.rpc._status import status_metadata

Admit = Callable[[str, Any], None]
"""Raises a TiermeshError for a call whose peer may not make it, by full method name and gRPC context."""

_KINDS = {
    (False, False): ("unary_unary", grpc.unary_unary_rpc_method_handler),
    (False, True): ("unary_stream", grpc.unary_stream_rpc_method_handler),
    (True, False): ("stream_unary", grpc.stream_unary_rpc_method_handler),
    (True, True): ("stream_stream", grpc.stream_stream_rpc_method_handler),
}


def guarded(method: str, handler: Any, admit: Admit) -> Any:
    """Returns a handler that runs `handler` for peers that `admit` lets in, whatever its kind and style."""
    kind, make = _KINDS[handler.request_streaming, handler.response_streaming]
    inner = getattr(handler, kind)

    async def ask(context: Any) -> None:
        try:
            admit(method, context)
        except TiermeshError as refused:
            await context.abort(refused.row.status, refused.message, status_metadata(refused))

    async def answer(request: Any, context: Any) -> Any:
        await ask(context)
        # Of a streaming handler that writes to its context: it returns nothing.
        return await inner(request, context)

    async def answers(request: Any, context: Any) -> AsyncIterator[Any]:
        await ask(context)
        async with aclosing(inner(request, context)) as responses:
            async for response in responses:
                yield response

    wrapped = answers if isasyncgenfunction(inner) else answer
    return make(
        wrapped,
        request_deserializer=handler.request_deserializer,
        response_serializer=handler.response_serializer,
    )
