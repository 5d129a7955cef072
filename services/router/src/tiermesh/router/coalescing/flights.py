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

    def join(self, key: RunKey, call: Call, *, token: bytes | None) -> Member | None:
        """Joins the run of the same request; None where there is none that began after the last invalidation.

        Args:
            key: What is run.
            call: The request.
            token: What the cache has said since the request came, as `Flight.token`. None where it does not say: then
                nobody can tell, and a mesh whose cache is down must not run everything twice for it.
        """
        flight = self._flights.get(key)
        if flight is None or (token is not None and token != flight.token):
            return None
        return flight.join(call)

    def start(
        self,
        key: RunKey,
        call: Call,
        events: Events,
        *,
        again: Again,
        token: bytes = b"",
        led_from: SpanContext | None = None,
        on_end: Callable[[Flight], None] | None = None,
    ) -> Member:
        """Starts a run that others may join; returns its first member. An earlier one goes on for those who have joined it.

        Args:
            key: What is run.
            call: The first member's request.
            events: The run. It is closed when its last member leaves.
            again: Runs a member's request should the run fail.
            token: See `Flight`.
            led_from: The span of the request that another router leads; None where the run is made for `call`.
            on_end: Called when the last run has ended.
        """
        over = partial(self._over, key)
        flight = Flight(
            call, again=again, clock=self._clock, token=token, on_over=over, on_end=on_end, led_from=led_from
        )
        self._flights[key] = flight
        flight.begin(events)
        return flight.first

    @property
    def under_way(self) -> tuple[Flight, ...]:
        """All runs that may be joined."""
        return tuple(self._flights.values())

    def has(self, key: RunKey) -> bool:
        """Tells whether a run of the request may be joined."""
        return key in self._flights

    def _over(self, key: RunKey, flight: Flight) -> None:
        if self._flights.get(key) is flight:
            del self._flights[key]
