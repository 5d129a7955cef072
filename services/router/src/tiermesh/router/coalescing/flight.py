"""One run, what it has given so far, and those who read it.

The run is a task of its own, so that no reader's leaving can end it but the last one's. Every reader
starts at the first event, however late it came, and reads at its own pace.
"""

from __future__ import annotations

import asyncio
import contextvars
import math
from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing
from typing import Any

from opentelemetry.trace import SpanContext
from tiermesh.api.common.v1 import answer_pb2
from tiermesh.router.call import Call
from tiermesh.router.coalescing.claim import Claim
from tiermesh.router.coalescing.continuation import Continuation, DivergedError
from tiermesh.router.coalescing.crew import Crew, Promoted, Verdict
from tiermesh.router.events import Completed, Event
from tiermesh.shared.clock import Clock
from tiermesh.shared.errors import InternalError, StreamBroken, TiermeshError
from tiermesh.shared.telemetry import get_logger

Events = AsyncGenerator[Event, None]
Again = Callable[["Flight", Call], Events]
"""Runs a member's request as if nobody had run it before."""
_log = get_logger(__name__)


class Reader:
    """One who reads what a run gives, from its first event on."""

    def __init__(self, flight: Flight) -> None:
        self.flight = flight
        self._error: TiermeshError | None = None
        """Why it has to stop reading before the run's end."""
        self._stops_at = 0
        """How many events it reads before that."""
        self._read = 0
        self._waiting: asyncio.Future[None] | None = None

    @property
    def has_begun(self) -> bool:
        """Whether it has been given anything."""
        return self._read > 0

    async def entries(self) -> AsyncGenerator[tuple[Event, Member | None], None]:
        """Yields each event with the member whose run it is from; None where that is another router's.

        Raises:
            TiermeshError: the run failed for this reader.
        """
        flight, record, loop = self.flight, self.flight.record, asyncio.get_running_loop()
        while True:
            while self._read < len(record) and (self._error is None or self._read < self._stops_at):
                self._read += 1
                yield record[self._read - 1]
            if self._error is not None and self._read >= self._stops_at:
                raise self._error
            if flight.complete:
                return
            self._waiting = loop.create_future()
            try:
                await self._waiting
            finally:
                self._waiting = None

    async def batch(self, look: asyncio.Event, *, wait_s: float) -> tuple[list[Event], TiermeshError | None, bool]:
        """Returns all that is new, the error that ends it, and whether that is all there will be.

        Waits for something new, for `look`, or for `wait_s` seconds, whichever comes first.
        """
        if not self._has_news and not look.is_set() and wait_s > 0:
            self._waiting = asyncio.get_running_loop().create_future()
            looking = asyncio.ensure_future(look.wait())
            either: set[asyncio.Future[Any]] = {self._waiting, looking}
            try:
                await asyncio.wait(either, timeout=wait_s, return_when=asyncio.FIRST_COMPLETED)
            finally:
                looking.cancel()
                self._waiting = None
        ends_at = self._stops_at if self._error is not None else len(self.flight.record)
        events = [event for event, _ in self.flight.record[self._read : ends_at]]
        self._read = max(self._read, ends_at)
        return events, self._error, self._error is not None or self.flight.complete

    def leave(self) -> None:
        """Stops reading; the last one to do so cancels the run."""
        self.flight.leave(self)

    def stop(self, error: TiermeshError, *, after: int) -> None:
        """Makes it stop with an error once it has read `after` events, unless it has an error already."""
        if self._error is None:
            self._error, self._stops_at = error, after
        self.wake()

    def wake(self) -> None:
        """Makes it look again."""
        if self._waiting is not None and not self._waiting.done():
            self._waiting.set_result(None)

    @property
    def _has_news(self) -> bool:
        return self._read < len(self.flight.record) or self._error is not None or self.flight.complete


class Member(Reader):
    """One request that waits for the run, and that could lead it."""

    def __init__(self, flight: Flight, call: Call) -> None:
        super().__init__(flight)
        self.call = call
        self.context = contextvars.copy_context()
        """Where its spans belong, should its request be run."""


class Flight:
    """One run and its members.

    Args:
        call: The first member's request.
        again: Runs a member's request should the run fail.
        clock: Time.
        on_over: Called as soon as nobody may join any more; perhaps twice.
        on_end: Called once, when the last run has ended.
        led_from: The span of the request that another router leads; None where the run is made for `call`.
        token: What the cache said that storing the answer takes, see `cache.v1.LookupResponse.store_token`. It changes
            with every invalidation. Empty where it did not say.
    """

    def __init__(
        self,
        call: Call,
        *,
        again: Again,
        clock: Clock,
        token: bytes = b"",
        on_over: Callable[[Flight], None],
        on_end: Callable[[Flight], None] | None = None,
        led_from: SpanContext | None = None,
    ) -> None:
        self.first = Member(self, call)
        self.record: list[tuple[Event, Member | None]] = []
        """What the run has given, with the member that it was made for."""
        self.token = token
        """Tells runs that began before an invalidation from those after it."""
        self.complete = False
        """Whether the record has its end."""
        self.led_from = led_from or call.span.get_span_context()
        """The span whose request is run."""
        self.is_led_elsewhere = led_from is not None
        """Whether another router makes the run."""
        self.followed: set[str] = set()
        """Tokens of other routers' runs that were followed."""
        self.claim: Claim | None = None
        """What keeps other routers from running the same."""
        self._again = again
        self._clock = clock
        self._on_over = on_over
        self._on_end = on_end
        self._crew: Crew[Reader] = Crew(
            self.first, deadline=call.caller.budget.deadline, now=clock.monotonic(), leads=led_from is None
        )
        self._run: asyncio.Task[None] | None = None
        self._error: TiermeshError | None = None

    @property
    def member_count(self) -> int:
        """How many wait for it."""
        return len(self._crew.members)

    @property
    def deltas(self) -> list[answer_pb2.Delta]:
        """The pieces given so far."""
        return [event for event, _ in self.record if isinstance(event, answer_pb2.Delta)]

    def begin(self, events: Events) -> None:
        """Starts the first run, in the first member's context."""
        self._started(asyncio.create_task(self._pump(None if self.is_led_elsewhere else self.first, events)))

    def join(self, call: Call) -> Member:
        """Takes in another request for the same."""
        member = Member(self, call)
        self._crew.join(member, deadline=call.caller.budget.deadline)
        return member

    def watch(self) -> Reader:
        """Takes in a reader that keeps the run going but cannot lead it."""
        reader = Reader(self)
        if self._error is not None:
            reader.stop(self._error, after=len(self.record))
        elif not self._crew.is_over:
            self._crew.join(reader, deadline=-math.inf)
        return reader

    def leave(self, member: Reader) -> None:
        """Lets a member go."""
        if self._crew.is_over:
            return
        if self._crew.leave(member) is Verdict.CANCELLED:
            self._on_over(self)
            if self._run is not None:
                self._run.cancel()

    async def _pump(self, leader: Member | None, events: Events) -> None:
        """Writes one run into the record."""
        # Mostly there is nothing to be continued.
        continuation = Continuation([event for event, _ in self.record]) if self.record else None
        try:
            async with aclosing(events):
                async for event in events:
                    new = continuation.admit(event) if continuation is not None else event
                    if new is not None:
                        self._give(new, leader)
            if not self.complete:
                raise StreamBroken("the shared run ended without its end")
        except TiermeshError as error:
            if not self.complete:
                self._failed(leader, error)
        except DivergedError as error:
            self._crew.diverged()
            self._end(StreamBroken(f"the run that this request shared broke off, and could not be taken up: {error}"))
        except Exception as error:
            # A defect: members learn that the answer is not complete, the log learns the rest.
            _log.error("a shared run failed", exc_info=error)
            self._crew.diverged()
            self._end(InternalError("an unexpected error ended the answer"))

    def _give(self, event: Event, leader: Member | None) -> None:
        self.record.append((event, None if self.is_led_elsewhere else leader))
        if isinstance(event, Completed):
            self.complete = True
            self._crew.complete()
            self._on_over(self)
        for member in self._crew:
            member.wake()

    def _failed(self, leader: Member | None, error: TiermeshError) -> None:
        if self.is_led_elsewhere:
            self._crew.led_elsewhere()
        elif leader is not None:
            leader.stop(error, after=len(self.record))
        step = self._crew.failed(error, now=self._clock.monotonic())
        if not isinstance(step, Promoted):
            self._end(error)
            return
        successor = step.member
        # A reader that only watches has no time of its own, so that it never is the one with the most.
        assert isinstance(successor, Member)
        self.led_from = successor.call.span.get_span_context()
        run = self._pump(successor, self._again(self, successor.call))
        self._started(asyncio.create_task(run, context=successor.context))

    def _started(self, run: asyncio.Task[None]) -> None:
        self._run = run
        run.add_done_callback(self._ended)

    def _ended(self, run: asyncio.Task[None]) -> None:
        # Of two runs the first ends when the second has been started; one that never began is done as well.
        if run is self._run:
            self._on_over(self)
            if self._on_end is not None:
                self._on_end(self)

    def _end(self, error: TiermeshError) -> None:
        self._error = error
        self._on_over(self)
        for member in self._crew.members:
            member.stop(error, after=len(self.record))
