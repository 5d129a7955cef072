"""The ledger of one request in the making, and how it is written down."""

from __future__ import annotations

from typing import Any

from tiermesh.api.common.v1 import ledger_pb2
from tiermesh.shared.budget import Budget
from tiermesh.shared.clock import Clock
from tiermesh.shared.ledger import PART_NAMES, Hop, Ledger, Parts, Statement


class Account:
    """Collects what a request's calls took.

    Args:
        budget: What the request may take.
        arrived: When it arrived, in seconds on the clock.
        clock: Time.
    """

    def __init__(self, budget: Budget, arrived: float, clock: Clock) -> None:
        self._clock = clock
        self._arrived = arrived
        self._ledger = Ledger(budget_in=max(0.0, budget.deadline - arrived))

    def now(self) -> float:
        """Seconds since the request arrived."""
        return self._clock.monotonic() - self._arrived

    def enter_lane(self, lane: str) -> None:
        """Notes which lane's table counts."""
        self._ledger = self._ledger.in_lane(lane)

    def held(self, seconds: float) -> None:
        """Notes for how long text was held back."""
        self._ledger = self._ledger.holding(seconds)

    def add(
        self,
        name: str,
        begin: float,
        *,
        budget: Budget,
        parts: Parts | None = None,
        outcome: str = "ok",
        tier: str = "",
    ) -> None:
        """Enters a call that has just ended.

        Args:
            name: `cache`, `classifier` or `engine`.
            begin: When it began, in seconds since the request's arrival.
            budget: What it might take.
            parts: What is known of where its time went; the default is all of it in `service`.
            outcome: How it ended.
            tier: Tier called.
        """
        end = self.now()
        found = Parts(service=end - begin) if parts is None else parts.within(end - begin)
        allowed = max(0.0, budget.deadline - self._arrived - begin)
        self._ledger = self._ledger.add(Hop(name, begin, end, found, allowed, outcome, tier))

    def close(self) -> Statement:
        """Returns the account up to this moment."""
        return self._ledger.close(self.now())


def ledger_message(statement: Statement) -> ledger_pb2.Ledger:
    """Returns an account as terminal events carry it."""
    ledger = statement.ledger
    hops = sorted(zip(ledger.hops, statement.counted, strict=True), key=lambda item: item[0].begin)
    return ledger_pb2.Ledger(
        lane=ledger.lane,
        budget_in=_duration(ledger.budget_in),
        budget_out=_duration(statement.budget_out),
        total=_duration(statement.total),
        parts=_parts(statement.parts),
        hops=[
            ledger_pb2.LedgerHop(
                name=hop.name,
                tier=hop.tier,
                outcome=hop.outcome,
                start=_duration(hop.begin),
                total=_duration(hop.total),
                budget_in=_duration(hop.budget_in),
                budget_out=_duration(hop.budget_out),
                parts=_parts(hop.parts),
                overlapped=_duration(hop.total - counted),
            )
            for hop, counted in hops
        ],
        held=_duration(ledger.held),
    )


# Both return what a message may be made from in place of a message: a ledger has some thirty durations, and made so takes a
# third of the time.


def _parts(parts: Parts) -> Any:
    # Only what is not zero: the message and its JSON stay short.
    return {name: _duration(value) for name in PART_NAMES if (value := getattr(parts, name))}


def _duration(seconds: float) -> Any:
    whole, nanos = divmod(max(0, round(seconds * 1e9)), 1_000_000_000)
    return {"seconds": whole, "nanos": nanos}
