"""Tickets of one lane that wait: tenants take turns by weight, and each tenant's own keep their order.

Start-time fair queueing (Goyal, Vin and Cheng, 1996) with every prompt counting as one: between
tenants that always have something waiting, the numbers of prompts started, divided by weight,
never differ by more than one prompt of each.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Mapping

from tiermesh.engine.ticket import Ticket

_LIKE_AMONG = 8
"""How far from its head a tenant's line is searched for a prompt of like length."""
_LIKE_PASSES = 8
"""How often a prompt is passed by for one of like length at most."""


class FairLine:
    """Waiting tickets of one lane.

    Args:
        weights: Tenants' weights; 1 for those not named.
    """

    def __init__(self, weights: Mapping[str, float]) -> None:
        self._weights = weights
        self._tenants: dict[str, deque[Ticket]] = {}
        """Only tenants that have something waiting."""
        self._start: dict[str, float] = {}
        """Virtual time at which a tenant's next prompt starts."""
        self._finish: dict[str, float] = {}
        """Virtual time at which a tenant's last prompt ended, where that is past `_now`."""
        self._now = 0.0
        self._count = 0

    def __len__(self) -> int:
        return self._count

    def __iter__(self) -> Iterator[Ticket]:
        for line in self._tenants.values():
            yield from line

    def add(self, ticket: Ticket) -> None:
        """Puts a ticket at the end of its tenant's line."""
        tenant = ticket.tenant
        line = self._tenants.get(tenant)
        if line is None:
            line = self._tenants[tenant] = deque()
            self._start[tenant] = max(self._now, self._finish.get(tenant, 0.0))
        line.append(ticket)
        self._count += 1

    def head(self, bucket: int | None = None) -> Ticket:
        """Returns the ticket that is to start next.

        Args:
            bucket: Length bucket that is preferred within the tenant whose turn it is, if any.

        Raises:
            ValueError: nothing waits.
        """
        # Of tenants whose turn it is alike, the one whose first prompt has waited longest.
        tenant = min(self._tenants, key=lambda name: (self._start[name], self._tenants[name][0].arrived))
        line = self._tenants[tenant]
        if bucket is None or line[0].passed >= _LIKE_PASSES:
            return line[0]
        some = (line[n] for n in range(min(len(line), _LIKE_AMONG)))
        return next((ticket for ticket in some if ticket.bucket == bucket), line[0])

    def start(self, ticket: Ticket) -> None:
        """Takes out a ticket that starts, and charges its tenant for it."""
        tenant = ticket.tenant
        for earlier in self._tenants[tenant]:
            if earlier is ticket:
                break
            earlier.passed += 1
        self._now = max(self._now, self._start[tenant])
        self._finish[tenant] = self._start[tenant] + 1.0 / self._weight(tenant)
        self._start[tenant] = self._finish[tenant]
        self.remove(ticket)

    def remove(self, ticket: Ticket) -> None:
        """Takes out a ticket that goes without having started."""
        line = self._tenants[ticket.tenant]
        line.remove(ticket)
        self._count -= 1
        if not line:
            del self._tenants[ticket.tenant]
            del self._start[ticket.tenant]
        if not self._tenants:
            # With nobody waiting there are no turns to remember, nor tenants that may never come back.
            self._finish.clear()
            self._now = 0.0

    def crowd_out(self, tenant: str | None) -> Ticket | None:
        """Returns the youngest ticket of the tenant that has most waiting for its weight.

        Args:
            tenant: Whom the place would be for; None where anyone's need is greater.

        Returns:
            None where taking its place would leave `tenant` with as much as it.
        """
        if not self._tenants:
            return None
        heaviest = max(self._tenants, key=self._burden)
        if tenant is not None and self._burden(heaviest) <= self._burden(tenant, 1):
            return None
        return self._tenants[heaviest][-1]

    def ahead_of(self, tenant: str) -> int:
        """Returns about how many waiting tickets start before a new one of this tenant."""
        mine = (len(self._tenants.get(tenant, ())) + 1) / self._weight(tenant)
        others = sum(
            min(len(line), int(mine * self._weight(name))) for name, line in self._tenants.items() if name != tenant
        )
        return len(self._tenants.get(tenant, ())) + others

    def oldest_arrival(self) -> float:
        """Returns when the ticket that has waited longest came; infinity where nothing waits."""
        return min((line[0].arrived for line in self._tenants.values()), default=float("inf"))

    def _burden(self, tenant: str, more: int = 0) -> float:
        return (len(self._tenants.get(tenant, ())) + more) / self._weight(tenant)

    def _weight(self, tenant: str) -> float:
        return self._weights.get(tenant, 1.0)
