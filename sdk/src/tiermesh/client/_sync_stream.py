"""One answer as it comes, for ordinary code."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from concurrent.futures import CancelledError
from types import TracebackType
from typing import Any, Self

import grpc
from tiermesh.api.router.v1 import router_pb2
from tiermesh.client._answer import Answer, Book
from tiermesh.client._retries import Attempts
from tiermesh.shared.budget import Budget
from tiermesh.shared.errors import TiermeshError


class AnswerStream:
    """The events of one answer. Use it with `with`, so that leaving it early frees the engine.

        with mesh.stream("Tell me about rivers") as stream:
            for text in stream.texts():
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
        sleep: Callable[[float], None],
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
        self._cancelled = threading.Event()

    @property
    def route(self) -> router_pb2.RouteLabel:
        """Where the request went and why; empty until the first event."""
        return self._book.route

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> router_pb2.GenerateResponse:
        """Returns the next event.

        Raises:
            TiermeshError: the answer has failed; StreamBroken where it ended without a terminal event.
            CancelledError: another thread has called `cancel` meanwhile.
        """
        if self._over:
            self._check()
            raise StopIteration
        try:
            event = self._first() if not self._book.begun else self._read()
            self._book.enter(event)
        except BaseException:
            self._close()
            raise
        if self._book.complete:
            self._over = True
            self._complete(self._budget.clock.monotonic() - self._began)
            # Reading on to the status lets the server see an end instead of a cancellation.
            try:
                next(self._call, None)
            except grpc.RpcError:
                # The answer is complete whatever comes now.
                self._call.cancel()
        return event

    def _first(self) -> router_pb2.GenerateResponse:
        while True:
            self._check()
            self._call = self._begin(self._budget.require("the request"))
            try:
                return self._read()
            except TiermeshError as error:
                wait = self._attempts.after(error, settled=self._book.settled)
                if wait is None:
                    raise
            self._sleep(wait)

    def _read(self) -> router_pb2.GenerateResponse:
        # A cancel that came between the making of the call and now has not reached it.
        if self._cancelled.is_set():
            self._call.cancel()
        try:
            event: router_pb2.GenerateResponse | None = next(self._call, None)
        except grpc.RpcError as error:
            self._check()
            raise self._book.failure(error, self._budget.remaining()) from None
        if event is None:
            self._book.answer()
            raise AssertionError("read past the end")
        return event

    def _check(self) -> None:
        if self._cancelled.is_set():
            raise CancelledError

    def texts(self, choice: int = 0) -> Iterator[str]:
        """Gives one choice's text as it comes. Revisions are not part of it; see `answer`.

        Raises:
            TiermeshError: as of the stream itself.
        """
        for event in self:
            if event.HasField("delta") and event.delta.choice_index == choice and event.delta.text:
                yield event.delta.text

    def answer(self) -> Answer:
        """Returns the whole answer, once the stream has ended.

        Raises:
            StreamBroken: it has not, or not with a terminal event.
        """
        return self._book.answer()

    def cancel(self) -> None:
        """Gives the answer up, from any thread; the mesh stops generating. Harmless once the stream has ended."""
        if not self._over:
            self._cancelled.set()
        self._close()

    def _close(self) -> None:
        self._over = True
        if self._call is not None:
            self._call.cancel()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._close()
