"""Who may start now and who waits: the order of work, as a plain state machine.

Interactive work goes before batch work, and the last `reserved` slots are never given to batch
work: once a slot is taken its holder keeps it to the end of the answer, so an order of waiting
alone would not help a person who arrives after sixteen batch prompts. Batch work that has waited
`batch_patience` seconds is no longer passed by, so it never starves.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from enum import Enum, auto

from tiermesh.engine.ports import Lane


class Place(Enum):
    """Where a ticket is."""

    WAITING = auto()
    RUNNING = auto()
    GONE = auto()


@dataclass(eq=False, slots=True)
class Ticket:
    """One prompt's place."""

    lane: Lane
    arrived: float
    """Seconds on the clock of `WaitingLine`'s callers."""
    place: Place = Place.GONE


class WaitingLine:
    """Slots, and a bounded line in front of them.

    Args:
        slots: Tickets that may run at once.
        limit: Tickets that may wait.
        reserved: Slots that batch work never takes; below `slots`.
        batch_patience: Seconds after which a waiting batch ticket is not passed by any more.
    """

    def __init__(self, *, slots: int, limit: int, reserved: int, batch_patience: float) -> None:
        if not 0 <= reserved < slots:
            raise ValueError(f"reserved must be from 0 to {slots - 1}: {reserved}")
        self.slots = slots
        self.limit = limit
        self._batch_slots = slots - reserved
        self._patience = batch_patience
        self._running = {Lane.INTERACTIVE: 0, Lane.BATCH: 0}
        self._waiting: dict[Lane, deque[Ticket]] = {Lane.INTERACTIVE: deque(), Lane.BATCH: deque()}

    @property
    def running_count(self) -> int:
        """Tickets that hold a slot."""
        return sum(self._running.values())

    @property
    def waiting_count(self) -> int:
        """Tickets that wait."""
        return sum(len(line) for line in self._waiting.values())

    def ahead_of(self, lane: Lane) -> int:
        """Returns how many waiting tickets would be served before a new one of this lane."""
        ahead = len(self._waiting[Lane.INTERACTIVE])
        return ahead if lane is Lane.INTERACTIVE else ahead + len(self._waiting[Lane.BATCH])

    def arrive(self, ticket: Ticket) -> Ticket | None:
        """Gives a ticket a slot or a place in the line; its `place` says which, GONE where neither was free.

        Returns:
            The youngest waiting batch ticket, turned away because an interactive one found the
            line full; or None.
        """
        if not self._waiting[ticket.lane] and self._may_start(ticket.lane):
            self._start(ticket)
            return None
        displaced = None
        if self.waiting_count >= self.limit:
            batch = self._waiting[Lane.BATCH]
            if ticket.lane is Lane.BATCH or not batch:
                return None
            displaced = batch.pop()
            displaced.place = Place.GONE
        ticket.place = Place.WAITING
        self._waiting[ticket.lane].append(ticket)
        return displaced

    def leave(self, ticket: Ticket, now: float) -> list[Ticket]:
        """Takes a ticket out, wherever it is, and returns those that now hold a slot."""
        if ticket.place is Place.WAITING:
            self._waiting[ticket.lane].remove(ticket)
        elif ticket.place is Place.RUNNING:
            self._running[ticket.lane] -= 1
        ticket.place = Place.GONE
        started = []
        while (following := self._next(now)) is not None:
            self._waiting[following.lane].popleft()
            self._start(following)
            started.append(following)
        return started

    def _may_start(self, lane: Lane) -> bool:
        if self.running_count >= self.slots:
            return False
        return lane is Lane.INTERACTIVE or self._running[Lane.BATCH] < self._batch_slots

    def _start(self, ticket: Ticket) -> None:
        ticket.place = Place.RUNNING
        self._running[ticket.lane] += 1

    def _next(self, now: float) -> Ticket | None:
        heads = [line[0] for lane, line in self._waiting.items() if line and self._may_start(lane)]
        patient = [head for head in heads if not (head.lane is Lane.BATCH and now - head.arrived >= self._patience)]
        if len(patient) < len(heads):
            return next(head for head in heads if head not in patient)
        return heads[0] if heads else None
