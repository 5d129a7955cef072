"""Who may start now and who waits: the order of work, as a plain state machine.

Interactive work goes before batch work, and the last `reserved` slots are never given to batch
work: once a slot is taken its holder keeps it to the end of the answer, so an order of waiting
alone would not help a person who arrives after sixteen batch prompts. While batch work has waited
longer than `batch_patience` seconds, one start in eight is its own, so it never starves, and
neither do people behind a long backlog of it. Within a lane tenants take turns (`FairLine`); in a
full line, a tenant with less waiting takes the place of the one with most.
"""

from __future__ import annotations

from collections.abc import Mapping

from tiermesh.engine.fair_line import FairLine
from tiermesh.engine.ports import Lane
from tiermesh.engine.ticket import Place, Ticket

__all__ = ["Place", "Ticket", "WaitingLine"]

_TURNS_BETWEEN_AGED = 7
"""Interactive starts between two of batch work that has waited too long."""


class WaitingLine:
    """Slots, and a bounded line in front of them.

    Args:
        slots: Tickets that may run at once, at most.
        limit: Tickets that may wait.
        reserved: Slots that batch work never takes; below `slots`.
        batch_patience: Seconds after which waiting batch work gets turns of its own.
        weights: Tenants' weights; 1 for those not named.
        like_with_like: Whether tickets of like length are started one after the other.
    """

    def __init__(
        self,
        *,
        slots: int,
        limit: int,
        reserved: int,
        batch_patience: float,
        weights: Mapping[str, float] | None = None,
        like_with_like: bool = False,
    ) -> None:
        if not 0 <= reserved < slots:
            raise ValueError(f"reserved must be from 0 to {slots - 1}: {reserved}")
        self.slots = slots
        self.limit = limit
        self._most = slots
        self._reserved = reserved
        self._patience = batch_patience
        self._like_with_like = like_with_like
        self._bucket: int | None = None
        self._turns_since_aged = _TURNS_BETWEEN_AGED
        self._running = {Lane.INTERACTIVE: 0, Lane.BATCH: 0}
        self._waiting = {lane: FairLine(weights or {}) for lane in Lane}

    @property
    def running_count(self) -> int:
        """Tickets that hold a slot."""
        return sum(self._running.values())

    @property
    def waiting_count(self) -> int:
        """Tickets that wait."""
        return sum(len(line) for line in self._waiting.values())

    def ahead_of(self, lane: Lane, tenant: str = "") -> int:
        """Returns about how many waiting tickets would start before a new one."""
        interactive, batch = self._waiting[Lane.INTERACTIVE], self._waiting[Lane.BATCH]
        if lane is Lane.INTERACTIVE:
            return interactive.ahead_of(tenant)
        return len(interactive) + batch.ahead_of(tenant)

    def may_start(self, lane: Lane) -> bool:
        """Whether a new ticket of this lane would start at once."""
        return not self._waiting[lane] and self._has_slot(lane)

    def arrive(self, ticket: Ticket) -> Ticket | None:
        """Gives a ticket a slot or a place in the line; its `place` says which, GONE where neither was free.

        Returns:
            The ticket that was turned away to make room, or None.
        """
        if self.may_start(ticket.lane):
            self._start(ticket)
            return None
        displaced = None
        if self.waiting_count >= self.limit:
            displaced = self._crowd_out(ticket)
            if displaced is None:
                return None
            self._waiting[displaced.lane].remove(displaced)
            displaced.place = Place.GONE
        ticket.place = Place.WAITING
        self._waiting[ticket.lane].add(ticket)
        return displaced

    def leave(self, ticket: Ticket, now: float) -> list[Ticket]:
        """Takes a ticket out, wherever it is, and returns those that now hold a slot."""
        if ticket.place is Place.WAITING:
            self._waiting[ticket.lane].remove(ticket)
        elif ticket.place is Place.RUNNING:
            self._running[ticket.lane] -= 1
        ticket.place = Place.GONE
        return self._fill(now)

    def resize(self, slots: int, now: float) -> list[Ticket]:
        """Changes how many tickets may run at once, within the most, and returns those that now hold a slot.

        Tickets that run already keep their slots.
        """
        self.slots = max(1, min(self._most, slots))
        return self._fill(now)

    def _crowd_out(self, ticket: Ticket) -> Ticket | None:
        if ticket.lane is Lane.INTERACTIVE:
            batch = self._waiting[Lane.BATCH].crowd_out(None)
            if batch is not None:
                return batch
        return self._waiting[ticket.lane].crowd_out(ticket.tenant)

    def _has_slot(self, lane: Lane) -> bool:
        if self.running_count >= self.slots:
            return False
        batch_slots = self.slots - self._reserved * self.slots // self._most
        return lane is Lane.INTERACTIVE or self._running[Lane.BATCH] < batch_slots

    def _start(self, ticket: Ticket) -> None:
        ticket.place = Place.RUNNING
        self._running[ticket.lane] += 1
        self._bucket = ticket.bucket if self._like_with_like else None

    def _fill(self, now: float) -> list[Ticket]:
        started = []
        while (lane := self._next_lane(now)) is not None:
            following = self._waiting[lane].head(self._bucket)
            self._waiting[lane].start(following)
            self._start(following)
            started.append(following)
        return started

    def _next_lane(self, now: float) -> Lane | None:
        interactive = len(self._waiting[Lane.INTERACTIVE]) > 0 and self._has_slot(Lane.INTERACTIVE)
        batch = len(self._waiting[Lane.BATCH]) > 0 and self._has_slot(Lane.BATCH)
        if interactive and batch:
            aged = now - self._waiting[Lane.BATCH].oldest_arrival() >= self._patience
            if aged and self._turns_since_aged >= _TURNS_BETWEEN_AGED:
                self._turns_since_aged = 0
                return Lane.BATCH
            self._turns_since_aged += 1
            return Lane.INTERACTIVE
        if interactive:
            return Lane.INTERACTIVE
        return Lane.BATCH if batch else None
