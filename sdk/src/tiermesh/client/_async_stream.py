"""One answer as it comes, for asyncio."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from types import TracebackType
from typing import Any, Self

import grpc
from tiermesh.api.router.v1 import router_pb2
from tiermesh.client._answer import Answer, Book
from tiermesh.client._retries import Attempts
from tiermesh.shared.budget import Budget
from tiermesh.shared.errors import TiermeshError

_STATUS_GRACE_S = 0.2
"""How long the status that follows the terminal event is waited for; the answer is complete without it."""


class AsyncAnswerStream:
    """The events of one answer. Use it with `async with`, so that leaving it early frees the engine.

        async with mesh.stream("Tell me about rivers") as stream:
            async for text in stream.texts():
                print(text, end="")
        print(stream.answer().usage)

    Iterating over the stream itself gives `tiermesh.api.router.v1.GenerateResponse`s, the last of
    which is `done`. Everything else raises: a failed answer its own error, a stream that just
    ends StreamBroken.
    """

    def __init__(
        self,
        begin: Callable[[float], Any],
        *,
        budget: Budget,
        attempts: Attempts,
        complete: Callable[[float], None],
        sleep: Callable[[float], Awaitable[None]],
    ) -> None:
        self._begin = begin
        self._budget = budget
        self._attempts = attempts
        self._complete = complete
        self._sleep = sleep
        self._began = budget.clock.monotonic()
        self._call: Any = None
        self._book = Book()
        self._over = False
        self._cancelled = False

    @property
    def route(self) -> router_pb2.RouteLabel:
        """Where the request went and why; empty until the first event."""
        return self._book.route

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> router_pb2.GenerateResponse:
        """Returns the next event.

        Raises:
            TiermeshError: the answer has failed; StreamBroken where it ended without a terminal event.
            asyncio.CancelledError: `cancel` was called before the end.
        """
        if self._over:
            if self._cancelled:
                raise asyncio.CancelledError
            raise StopAsyncIteration
        try:
            event = await self._first() if not self._book.begun else await self._read()
            self._book.enter(event)
        except BaseException:
            self._close()
            raise
        if self._book.complete:
            self._complete(self._budget.clock.monotonic() - self._began)
            await self._finish()
        return event

    async def _first(self) -> router_pb2.GenerateResponse:
        while True:
            self._call = self._begin(self._budget.require("the request"))
            try:
                return await self._read()
            except TiermeshError as error:
                self._call.cancel()
                wait = self._attempts.after(error, settled=self._book.settled)
                if wait is None:
                    raise
            await self._sleep(wait)

    async def _read(self) -> router_pb2.GenerateResponse:
        try:
            event = await self._call.read()
        except grpc.aio.AioRpcError as error:
            raise self._book.failure(error, self._budget.remaining()) from None
        if event is grpc.aio.EOF:
            self._book.answer()
            raise AssertionError("read past the end")
        assert isinstance(event, router_pb2.GenerateResponse)
        return event

    async def _finish(self) -> None:
        # Reading on to the status lets the server see an end instead of a cancellation.
        self._over = True
        try:
            async with asyncio.timeout(_STATUS_GRACE_S):
                await self._call.read()
        except (TimeoutError, grpc.aio.AioRpcError):
            self._call.cancel()

    async def texts(self, choice: int = 0) -> AsyncIterator[str]:
        """Gives one choice's text as it comes. Revisions are not part of it; see `answer`.

        Raises:
            TiermeshError: as of the stream itself.
        """
        async for event in self:
            if event.HasField("delta") and event.delta.choice_index == choice and event.delta.text:
                yield event.delta.text

    def answer(self) -> Answer:
        """Returns the whole answer, once the stream has ended.

        Raises:
            StreamBroken: it has not, or not with a terminal event.
        """
        return self._book.answer()

    def cancel(self) -> None:
        """Gives the answer up; the mesh stops generating. Harmless once the stream has ended."""
        self._cancelled = not self._over
        self._close()

    def _close(self) -> None:
        self._over = True
        if self._call is not None:
            self._call.cancel()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._close()
