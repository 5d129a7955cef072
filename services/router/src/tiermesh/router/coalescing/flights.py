"""The runs of this router that identical requests may join."""

from __future__ import annotations

from functools import partial

from tiermesh.router.call import Call
from tiermesh.router.coalescing.flight import Again, Events, Flight, Member
from tiermesh.router.coalescing.key import RunKey
from tiermesh.shared.clock import Clock


class Flights:
    """Runs under way, by what is run.

    Args:
        clock: Time.
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._flights: dict[RunKey, Flight] = {}

    def join(self, key: RunKey, call: Call) -> Member | None:
        """Joins the run of the same request; None where there is none."""
        flight = self._flights.get(key)
        return flight.join(call) if flight is not None else None

    def start(self, key: RunKey, call: Call, events: Events, *, again: Again, leads: bool = True) -> Member:
        """Starts a run that others may join; returns its first member.

        Args:
            key: What is run.
            call: The first member's request.
            events: The run. It is closed when its last member leaves.
            again: Runs a member's request should the run fail.
            leads: Whether the run is made for `call`.
        """
        flight = Flight(call, again=again, clock=self._clock, on_over=partial(self._over, key), leads=leads)
        self._flights[key] = flight
        flight.begin(events)
        return flight.first

    def find(self, key: RunKey) -> Flight | None:
        """Returns the run of a request, if one is under way."""
        return self._flights.get(key)

    def _over(self, key: RunKey) -> None:
        self._flights.pop(key, None)
