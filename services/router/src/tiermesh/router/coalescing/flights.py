"""The runs of this router that identical requests may join."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from opentelemetry.trace import SpanContext
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

    def start(
        self,
        key: RunKey,
        call: Call,
        events: Events,
        *,
        again: Again,
        led_from: SpanContext | None = None,
        on_end: Callable[[Flight], None] | None = None,
    ) -> Member:
        """Starts a run that others may join; returns its first member.

        Args:
            key: What is run.
            call: The first member's request.
            events: The run. It is closed when its last member leaves.
            again: Runs a member's request should the run fail.
            led_from: The span of the request that another router leads; None where the run is made for `call`.
            on_end: Called when the last run has ended.
        """
        over = partial(self._over, key)
        flight = Flight(call, again=again, clock=self._clock, on_over=over, on_end=on_end, led_from=led_from)
        self._flights[key] = flight
        flight.begin(events)
        return flight.first

    @property
    def under_way(self) -> tuple[Flight, ...]:
        """All runs that may be joined."""
        return tuple(self._flights.values())

    def find(self, key: RunKey) -> Flight | None:
        """Returns the run of a request, if one is under way."""
        return self._flights.get(key)

    def _over(self, key: RunKey, flight: Flight) -> None:
        if self._flights.get(key) is flight:
            del self._flights[key]
