"""What the router counts: requests, where their time went, escalations and what kept them from happening."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from opentelemetry.metrics import CallbackOptions, Meter, NoOpMeterProvider, Observation
from tiermesh.shared.ledger import PART_NAMES, Statement
from tiermesh.shared.telemetry import SECONDS


class RequestMetrics:
    """Instruments of one router.

    Args:
        meter: Makes them; without one nothing is counted.
    """

    def __init__(self, meter: Meter | None = None) -> None:
        made = meter or NoOpMeterProvider().get_meter("tiermesh")
        self._counts = meter is not None
        self._requests = made.create_histogram(
            "tiermesh.request.duration",
            unit="s",
            description="From a request's arrival to its terminal event, by `lane` and `outcome`.",
            explicit_bucket_boundaries_advisory=SECONDS,
        )
        self._parts = made.create_histogram(
            "tiermesh.ledger.part",
            unit="s",
            description="Time of a request by what it was spent on, by `lane` and `part`.",
            explicit_bucket_boundaries_advisory=SECONDS,
        )
        self._held = made.create_histogram(
            "tiermesh.request.held",
            unit="s",
            description="How long first text was held back to be judged, by `lane`.",
            explicit_bucket_boundaries_advisory=SECONDS,
        )
        self._escalations = made.create_counter(
            "tiermesh.escalations", description="Answers given up for a stronger tier's, by `tier` and `why`."
        )
        self._skipped = made.create_counter(
            "tiermesh.escalations.skipped",
            description="Answers that were not good enough and given all the same, by `gate`.",
        )
        self._coalesced = made.create_counter(
            "tiermesh.requests.coalesced", description="Requests that shared an identical one's run."
        )
        self._promoted = made.create_counter(
            "tiermesh.coalescing.promotions", description="Shared runs that failed and were begun anew for another."
        )
        self._outcomes = made.create_counter(
            "tiermesh.outcomes",
            description="Records of outcomes, by `state`: `filed` in the log, or `dropped` before it took them.",
        )
        self._stores = made.create_counter(
            "tiermesh.stores",
            description="Answers for the cache: `kept`, `refused` by it, `failed` on the way, `dropped` for want of room.",
        )
        self._breaker_refusals = made.create_counter(
            "tiermesh.breaker.refusals", description="Engine calls that an open circuit breaker refused."
        )
        self._meter = made

    def stores(self, state: str, count: int) -> None:
        """Counts answers for the cache by what has become of them: `kept`, `refused`, `failed` or `dropped`."""
        if count:
            self._stores.add(count, {"state": state})

    def outcomes_filed(self, count: int) -> None:
        """Counts records that the log has taken."""
        self._outcomes.add(count, {"state": "filed"})

    def outcomes_dropped(self, count: int) -> None:
        """Counts records that were given up."""
        self._outcomes.add(count, {"state": "dropped"})

    def watch_breakers(self, opened: Callable[[], Iterable[tuple[str, str]]]) -> None:
        """Reports open circuit breakers whenever figures are read.

        Args:
            opened: Returns tier and priority of each.
        """

        def look(_: CallbackOptions) -> Iterable[Observation]:
            return [Observation(1, {"tier": tier, "priority": priority}) for tier, priority in opened()]

        self._meter.create_observable_gauge(
            "tiermesh.breaker.open", [look], description="1 for each circuit breaker that is open."
        )

    def breaker_refused(self, *, tier: str, priority: str) -> None:
        """Counts a call of `tier` that an open circuit breaker refused."""
        self._breaker_refusals.add(1, {"tier": tier, "priority": priority})

    def request(self, statement: Statement, *, outcome: str) -> None:
        """Counts a request that has ended.

        Args:
            statement: Its ledger.
            outcome: `ok`, `cancelled`, or the reason it failed for.
        """
        if not self._counts:
            return
        lane = statement.ledger.lane or "none"
        self._requests.record(statement.total, {"lane": lane, "outcome": outcome})
        for name in PART_NAMES:
            self._parts.record(getattr(statement.parts, name), {"lane": lane, "part": name})
        if statement.ledger.held:
            self._held.record(statement.ledger.held, {"lane": lane})

    def coalesced(self, *, elsewhere: bool) -> None:
        """Counts a request that shares an identical one's run.

        Args:
            elsewhere: Whether another router leads it.
        """
        self._coalesced.add(1, {"led": "elsewhere" if elsewhere else "here"})

    def promoted(self) -> None:
        """Counts a run that was begun anew for a request that had shared another's, which failed."""
        self._promoted.add(1)

    def escalated(self, *, tier: str, why: str) -> None:
        """Counts an answer of `tier` that was given up."""
        self._escalations.add(1, {"tier": tier, "why": why})

    def skipped(self, *, gate: str) -> None:
        """Counts an answer that was not given up because `gate` was shut."""
        self._skipped.add(1, {"gate": gate})
