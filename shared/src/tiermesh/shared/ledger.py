"""Where a request's time went: an immutable account whose parts always sum to the whole.

Calls made for a request are *hops*. Hops may run side by side, as a cache lookup and a
classification do; the account then counts each moment once, for the hop that ended last, since
that is the one that was waited for. What no hop covers is the router's own.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields


@dataclass(frozen=True, slots=True)
class Parts:
    """Seconds by what they were spent on. They exclude each other, and none is negative."""

    queue: float = 0.0
    network: float = 0.0
    tokenize: float = 0.0
    prefill: float = 0.0
    decode: float = 0.0
    detokenize: float = 0.0
    service: float = 0.0
    routing: float = 0.0

    @property
    def total(self) -> float:
        """Their sum."""
        return (
            self.queue
            + self.network
            + self.tokenize
            + self.prefill
            + self.decode
            + self.detokenize
            + self.service
            + self.routing
        )

    # Every request adds some of these up; written out, that takes a third of what a loop over the names does.
    def __add__(self, other: Parts) -> Parts:
        return Parts(
            self.queue + other.queue,
            self.network + other.network,
            self.tokenize + other.tokenize,
            self.prefill + other.prefill,
            self.decode + other.decode,
            self.detokenize + other.detokenize,
            self.service + other.service,
            self.routing + other.routing,
        )

    def scaled(self, factor: float) -> Parts:
        """Returns every part times `factor`."""
        return Parts(
            self.queue * factor,
            self.network * factor,
            self.tokenize * factor,
            self.prefill * factor,
            self.decode * factor,
            self.detokenize * factor,
            self.service * factor,
            self.routing * factor,
        )

    def within(self, total: float) -> Parts:
        """Returns parts that sum to `total`: what is missing is network; what is too much is taken from all alike.

        Parts that another process has measured may exceed what this one saw, by the difference of
        two clocks' readings.
        """
        known = self.total
        if known <= total:
            return self + Parts(network=total - known)
        return self.scaled(total / known)


PART_NAMES = tuple(field.name for field in fields(Parts))
"""Names of the parts, in order."""


@dataclass(frozen=True, slots=True)
class Hop:
    """One call made for a request. Times are seconds since the request's arrival."""

    name: str
    """`cache`, `classifier` or `engine`."""
    begin: float
    end: float
    parts: Parts
    """Sum to `end - begin`."""
    budget_in: float
    """Seconds that the call might take when it began."""
    outcome: str = "ok"
    tier: str = ""

    @property
    def total(self) -> float:
        """Seconds it took."""
        return self.end - self.begin

    @property
    def budget_out(self) -> float:
        """Seconds of its budget that were left when it ended."""
        return max(0.0, self.budget_in - self.total)


@dataclass(frozen=True, slots=True)
class Ledger:
    """The account of one request so far."""

    budget_in: float
    """Seconds that the request might take when it arrived."""
    lane: str = ""
    hops: tuple[Hop, ...] = ()
    """In the order in which they ended."""
    held: float = 0.0
    """Seconds for which the first text was held back to be judged; within the parts."""

    def add(self, hop: Hop) -> Ledger:
        """Returns the account with one more hop."""
        return Ledger(self.budget_in, self.lane, (*self.hops, hop), self.held)

    def in_lane(self, lane: str) -> Ledger:
        """Returns the account of a request whose lane is known."""
        return Ledger(self.budget_in, lane, self.hops, self.held)

    def holding(self, seconds: float) -> Ledger:
        """Returns the account with more time for which text was held back."""
        return Ledger(self.budget_in, self.lane, self.hops, self.held + seconds)

    def close(self, total: float) -> Statement:
        """Returns the account of a request that took `total` seconds."""
        counted = _counted(self.hops)
        parts = Parts()
        for hop, share in zip(self.hops, counted, strict=True):
            if share > 0:
                parts += hop.parts if share == hop.total else hop.parts.scaled(share / hop.total)
        ours = max(0.0, total - parts.total)
        return Statement(self, total, parts + Parts(routing=ours), counted)


@dataclass(frozen=True, slots=True)
class Statement:
    """A closed account."""

    ledger: Ledger
    total: float
    """Seconds from the request's arrival to its end."""
    parts: Parts
    """Sum to `total`."""
    counted: tuple[float, ...]
    """Seconds of each hop that are in `parts`; the rest of it overlaps a hop that ended later."""

    @property
    def budget_out(self) -> float:
        """Seconds of the request's budget that are left."""
        return max(0.0, self.ledger.budget_in - self.total)


def _counted(hops: Sequence[Hop]) -> tuple[float, ...]:
    """Returns how much of each hop is not covered by hops that ended later."""
    counted = [0.0] * len(hops)
    covered_from = float("inf")
    # Latest end first: whatever of a hop lies left of all later-ending hops' beginnings is its own.
    for n in sorted(range(len(hops)), key=lambda n: (-hops[n].end, hops[n].begin)):
        hop = hops[n]
        counted[n] = max(0.0, min(hop.end, covered_from) - hop.begin)
        covered_from = min(covered_from, hop.begin)
    return tuple(counted)
