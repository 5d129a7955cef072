"""The door of the engine: a prompt gets a slot, waits for one within its deadline, or is refused."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass

from tiermesh.engine.batch_limit import BatchLimit
from tiermesh.engine.drain_rate import DrainRate
from tiermesh.engine.ports import Lane
from tiermesh.engine.waiting import Place, Ticket, WaitingLine
from tiermesh.shared.budget import Budget
from tiermesh.shared.clock import Clock
from tiermesh.shared.errors import QueueFull

_REMEMBERED = 32
_RETRY_RANGE_S = (0.1, 60.0)
_UNKNOWN_SERVICE_S = 1.0
"""Service time that is assumed until the first answer is complete."""


@dataclass(frozen=True, slots=True)
class Slot:
    """A slot that is held."""

    waited: float
    """Seconds between arrival and slot."""


class Admission:
    """Hands out the slots of a `WaitingLine`.

    Args:
        line: Slots and line; nobody else may use it.
        clock: Times waiting and service.
        tier: Name for messages.
        batch_limit: How many slots there are at the moment; all of the line's by default.
    """

    def __init__(self, line: WaitingLine, *, clock: Clock, tier: str, batch_limit: BatchLimit | None = None) -> None:
        self._line = line
        self._clock = clock
        self._tier = tier
        self._batch_limit = batch_limit or BatchLimit(most=line.slots, token_s_limit=None)
        self._drain = DrainRate()
        self._calls: dict[Ticket, asyncio.Future[bool]] = {}
        self._service_s: deque[float] = deque(maxlen=_REMEMBERED)

    @property
    def running_count(self) -> int:
        """Prompts that hold a slot."""
        return self._line.running_count

    @property
    def waiting_count(self) -> int:
        """Prompts that wait for one."""
        return self._line.waiting_count

    @property
    def slots(self) -> int:
        """Prompts that may run at once, at the moment."""
        return self._line.slots

    def retry_after(self, lane: Lane, tenant: str = "") -> float:
        """Seconds after which a slot is likely free, judging by how the queue has drained of late."""
        low, high = _RETRY_RANGE_S
        return min(high, max(low, (self._line.ahead_of(lane, tenant) + 1) / self._starts_per_second()))

    def expected_wait(self, lane: Lane, tenant: str = "") -> float:
        """Seconds that a new prompt would wait for a slot."""
        if self._line.may_start(lane):
            return 0.0
        return (self._line.ahead_of(lane, tenant) + 1) / self._starts_per_second()

    def note_token_time(self, token_s: float) -> None:
        """Notes the mean time between two tokens of a complete answer; slots may become more or fewer by it."""
        now = self._clock.monotonic()
        if self._batch_limit.answered(token_s, now):
            self._call_all(self._line.resize(self._batch_limit.limit, now))

    @asynccontextmanager
    async def slot(self, lane: Lane, budget: Budget, *, tenant: str = "", length: int = 0) -> AsyncIterator[Slot]:
        """Holds a slot for the length of the block, waiting for it first where none is free.

        Args:
            lane: Who is served first.
            budget: Bounds the waiting.
            tenant: Whose turn it uses.
            length: Tokens of the prompt.

        Raises:
            BudgetExhausted: the deadline has passed, or passed in the queue.
            QueueFull: no slot is free and the line is full; `retry_after` is set.
        """
        budget.require(f"the queue of tier {self._tier}")
        ticket = Ticket(lane, self._clock.monotonic(), tenant, length)
        displaced = self._line.arrive(ticket)
        if displaced is not None:
            self._call(displaced, served=False)
        self._batch_limit.queued(self._line.waiting_count)
        if ticket.place is Place.GONE:
            raise self._full(lane, tenant)
        try:
            if ticket.place is Place.WAITING:
                self._drain.waits(ticket.arrived)
                called = self._calls[ticket] = asyncio.get_running_loop().create_future()
                async with budget.limit(f"waiting in the queue of tier {self._tier}"):
                    served = await called
                if not served:
                    raise self._full(lane, tenant)
            began = self._clock.monotonic()
            yield Slot(began - ticket.arrived)
            # Only whole answers tell how long the next one will take.
            self._service_s.append(self._clock.monotonic() - began)
        finally:
            self._calls.pop(ticket, None)
            self._call_all(self._line.leave(ticket, self._clock.monotonic()))
            if not self._line.waiting_count:
                self._drain.emptied()

    def _starts_per_second(self) -> float:
        measured = self._drain.per_second
        if measured is not None:
            return measured
        service = sum(self._service_s) / len(self._service_s) if self._service_s else _UNKNOWN_SERVICE_S
        return self._line.slots / max(service, 1e-6)

    def _call_all(self, started: list[Ticket]) -> None:
        for number, ticket in enumerate(started, 1):
            still = self._line.waiting_count > 0 or number < len(started)
            self._drain.started(self._clock.monotonic(), still_waiting=still)
            self._call(ticket, served=True)

    def _call(self, ticket: Ticket, *, served: bool) -> None:
        called = self._calls.pop(ticket)
        # One that is being cancelled right now gives its slot back when it leaves.
        if not called.done():
            called.set_result(served)

    def _full(self, lane: Lane, tenant: str) -> QueueFull:
        return QueueFull(
            f"the queue of tier {self._tier} is full: {self._line.running_count} prompts run, {self._line.waiting_count} wait",
            retry_after=self.retry_after(lane, tenant),
        )
