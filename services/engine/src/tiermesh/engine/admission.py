"""The door of the engine: a prompt gets a slot, waits for one within its deadline, or is refused."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass

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
    """

    def __init__(self, line: WaitingLine, *, clock: Clock, tier: str) -> None:
        self._line = line
        self._clock = clock
        self._tier = tier
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

    def retry_after(self, lane: Lane) -> float:
        """Seconds after which a slot is likely free, judging by the answers of late."""
        service = sum(self._service_s) / len(self._service_s) if self._service_s else _UNKNOWN_SERVICE_S
        low, high = _RETRY_RANGE_S
        return min(high, max(low, service * (self._line.ahead_of(lane) + 1) / self._line.slots))

    @asynccontextmanager
    async def slot(self, lane: Lane, budget: Budget) -> AsyncIterator[Slot]:
        """Holds a slot for the length of the block, waiting for it first where none is free.

        Raises:
            BudgetExhausted: the deadline has passed, or passed in the queue.
            QueueFull: no slot is free and the line is full; `retry_after` is set.
        """
        budget.require(f"the queue of tier {self._tier}")
        ticket = Ticket(lane, self._clock.monotonic())
        displaced = self._line.arrive(ticket)
        if displaced is not None:
            self._call(displaced, served=False)
        if ticket.place is Place.GONE:
            raise self._full(lane)
        try:
            if ticket.place is Place.WAITING:
                called = self._calls[ticket] = asyncio.get_running_loop().create_future()
                async with budget.limit(f"waiting in the queue of tier {self._tier}"):
                    served = await called
                if not served:
                    raise self._full(lane)
            began = self._clock.monotonic()
            yield Slot(began - ticket.arrived)
            # Only whole answers tell how long the next one will take.
            self._service_s.append(self._clock.monotonic() - began)
        finally:
            self._calls.pop(ticket, None)
            for started in self._line.leave(ticket, self._clock.monotonic()):
                self._call(started, served=True)

    def _call(self, ticket: Ticket, *, served: bool) -> None:
        called = self._calls.pop(ticket)
        # One that is being cancelled right now gives its slot back when it leaves.
        if not called.done():
            called.set_result(served)

    def _full(self, lane: Lane) -> QueueFull:
        return QueueFull(
            f"the queue of tier {self._tier} is full: {self._line.running_count} prompts run, {self._line.waiting_count} wait",
            retry_after=self.retry_after(lane),
        )
