"""One run, what it has given so far, and those who read it.

The run is a task of its own, so that no reader's leaving can end it but the last one's. Every reader
starts at the first event, however late it came, and reads at its own pace.
"""

from __future__ import annotations

import asyncio
import contextvars
from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing

from opentelemetry.trace import SpanContext
from tiermesh.api.common.v1 import answer_pb2
from tiermesh.router.call import Call
from tiermesh.router.coalescing.continuation import Continuation, DivergedError
from tiermesh.router.coalescing.crew import Crew, Promoted, Verdict
from tiermesh.router.events import Completed, Event
from tiermesh.shared.clock import Clock
from tiermesh.shared.errors import InternalError, StreamBroken, TiermeshError
from tiermesh.shared.telemetry import get_logger

Events = AsyncGenerator[Event, None]
Again = Callable[[Call], Events]
"""Runs a request as if nobody had run it before."""
_log = get_logger(__name__)


class Member:
    """One request that waits for the run. Made by `Flight`."""

    def __init__(self, flight: Flight, call: Call) -> None:
        self.call = call
        self.flight = flight
        self.context = contextvars.copy_context()
        """Where its spans belong, should its request be run."""
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
            TiermeshError: the run failed for this member.
        """
        flight = self.flight
        while True:
            while self._read < len(flight.record) and not self._is_stopped:
                self._read += 1
                yield flight.record[self._read - 1]
            if self._error is not None and self._is_stopped:
                raise self._error
            if flight.complete:
                return
            self._waiting = asyncio.get_running_loop().create_future()
            try:
                await self._waiting
            finally:
                self._waiting = None

    def leave(self) -> None:
        """Stops reading; the last one to do so cancels the run."""
        self.flight.leave(self)

    def stop(self, error: TiermeshError, *, after: int) -> None:
        """Makes it stop with an error once it has read `after` events, unless it has an error already."""
        if self._error is None:
            self._error, self._stops_at = error, after
        self.wake()

    @property
    def _is_stopped(self) -> bool:
        return self._error is not None and self._read >= self._stops_at

    def wake(self) -> None:
        """Makes it look again."""
        if self._waiting is not None and not self._waiting.done():
            self._waiting.set_result(None)


class Flight:
    """One run and its members.

    Args:
        call: The first member's request.
        again: Runs a member's request should the run fail.
        clock: Time.
        on_over: Called once, as soon as nobody may join any more.
        leads: Whether the run is made for `call`; if not, another router leads it.
    """

    def __init__(
        self, call: Call, *, again: Again, clock: Clock, on_over: Callable[[], None], leads: bool = True
    ) -> None:
        self.first = Member(self, call)
        self.record: list[tuple[Event, Member | None]] = []
        """What the run has given, with the member that it was made for."""
        self.complete = False
        """Whether the record has its end."""
        self.led_from: SpanContext | None = call.span.get_span_context() if leads else None
        """The span whose request is run."""
        self.promotions = 0
        """How many times another member took over."""
        self.grown = asyncio.Event()
        """Set at every event; whoever waits for it clears it."""
        self._again = again
        self._clock = clock
        self._on_over = on_over
        self._crew: Crew[Member] = Crew(
            self.first, deadline=call.caller.budget.deadline, now=clock.monotonic(), leads=leads
        )
        self._run: asyncio.Task[None] | None = None
        self._leads = leads

    @property
    def running(self) -> asyncio.Task[None] | None:
        """The task of the current run, so that a shutdown can wait for it."""
        return self._run

    @property
    def deltas(self) -> list[answer_pb2.Delta]:
        """The pieces given so far."""
        return [event for event, _ in self.record if isinstance(event, answer_pb2.Delta)]

    def begin(self, events: Events) -> None:
        """Starts the first run, in the first member's context."""
        self._run = asyncio.create_task(self._pump(self.first if self._leads else None, events))

    def join(self, call: Call) -> Member:
        """Takes in another request for the same."""
        member = Member(self, call)
        self._crew.join(member, deadline=call.caller.budget.deadline)
        return member

    def leave(self, member: Member) -> None:
        """Lets a member go."""
        if self._crew.is_over:
            return
        if self._crew.leave(member) is Verdict.CANCELLED:
            self._on_over()
            if self._run is not None:
                self._run.cancel()

    async def _pump(self, leader: Member | None, events: Events) -> None:
        """Writes one run into the record."""
        continuation = Continuation([event for event, _ in self.record])
        try:
            async with aclosing(events):
                async for event in events:
                    new = continuation.admit(event)
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
        self.record.append((event, leader))
        if isinstance(event, Completed):
            self.complete = True
            self._crew.complete()
            self._on_over()
        self.grown.set()
        for member in self._crew.members:
            member.wake()

    def _failed(self, leader: Member | None, error: TiermeshError) -> None:
        if leader is not None:
            leader.stop(error, after=len(self.record))
        step = self._crew.failed(error, now=self._clock.monotonic())
        if not isinstance(step, Promoted):
            self._end(error)
            return
        self.promotions += 1
        successor = step.member
        self.led_from = successor.call.span.get_span_context()
        self._run = asyncio.create_task(self._pump(successor, self._again(successor.call)), context=successor.context)

    def _end(self, error: TiermeshError) -> None:
        self._on_over()
        self.grown.set()
        for member in self._crew.members:
            member.stop(error, after=len(self.record))
