"""How busy each tier is, as all its engines tell."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from tiermesh.api.engine.v1 import engine_pb2
from tiermesh.shared.clock import Clock

STALE_S = 2.0
"""Seconds after the end of a tier's reports for which the last one still counts."""


@dataclass(frozen=True, slots=True)
class TierLoad:
    """The load of one engine, or of all engines of a tier."""

    running: int
    waiting: int
    slots: int
    queue_limit: int

    @classmethod
    def of(cls, report: engine_pb2.WatchLoadResponse) -> TierLoad:
        """Returns the load that an engine reports."""
        return cls(report.running_count, report.waiting_count, report.slot_count, report.queue_limit)

    @property
    def has_free_slot(self) -> bool:
        """Whether a prompt would begin at once."""
        return not self.waiting and self.running < self.slots

    def backlogged(self, waiting_per_slot: float) -> bool:
        """Returns whether too many prompts wait: `waiting_per_slot` for each slot, or as many as may."""
        if not self.waiting:
            return False
        return self.waiting >= waiting_per_slot * self.slots or self.waiting >= self.queue_limit


class TierLoads:
    """The last report of each replica of each tier. A tier that reports nothing counts as neither busy nor free."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._replicas: dict[str, dict[str, _Replica]] = {}
        self._sums: dict[str, TierLoad] = {}
        self._fading = False

    def report(self, tier: str, replica: str, load: TierLoad) -> None:
        """Takes a report in that comes with every change: it counts until the next."""
        self._replicas.setdefault(tier, {})[replica] = _Replica(load)
        self._sums[tier] = _sum(self._replicas[tier].values())

    def feedback(self, tier: str, replica: str, load: TierLoad) -> None:
        """Takes in what an answer told of its replica; where nothing reports its changes, that soon means nothing."""
        known = self._replicas.setdefault(tier, {}).get(replica)
        followed = known is not None and known.ended_at is None
        self._replicas[tier][replica] = _Replica(load, None if followed else self._clock.monotonic())
        self._fading = self._fading or not followed
        self._sums[tier] = _sum(self._replicas[tier].values())

    def ended(self, tier: str, replica: str) -> None:
        """Notes that a replica's reports have ended; the last one counts for `STALE_S` more."""
        known = self._replicas.get(tier, {}).get(replica)
        if known is not None and known.ended_at is None:
            self._replicas[tier][replica] = _Replica(known.load, self._clock.monotonic())
            self._fading = True

    def current(self) -> Mapping[str, TierLoad]:
        """Returns the load of every tier of which a report still counts: all its replicas together."""
        if self._fading:
            self._forget(self._clock.monotonic() - STALE_S)
        return self._sums

    def replicas(self, tier: str) -> Mapping[str, TierLoad]:
        """Returns the load of each replica of a tier of which a report still counts."""
        self.current()
        return {name: known.load for name, known in self._replicas.get(tier, {}).items()}

    def _forget(self, before: float) -> None:
        self._fading = False
        for tier, known in list(self._replicas.items()):
            kept = {name: one for name, one in known.items() if one.ended_at is None or one.ended_at >= before}
            self._fading = self._fading or any(one.ended_at is not None for one in kept.values())
            if len(kept) == len(known):
                continue
            if kept:
                self._replicas[tier], self._sums[tier] = kept, _sum(kept.values())
            else:
                del self._replicas[tier], self._sums[tier]


@dataclass(frozen=True, slots=True)
class _Replica:
    load: TierLoad
    ended_at: float | None = None
    """When its reports ended; None while they come."""


def _sum(replicas: Iterable[_Replica]) -> TierLoad:
    """Adds replicas up: Envoy sends each request to the one with the fewest, so their room is everyone's."""
    loads = [one.load for one in replicas]
    return TierLoad(
        running=sum(load.running for load in loads),
        # Where one has a slot free, the next prompt is sent there, whatever waits elsewhere.
        waiting=0 if any(load.has_free_slot for load in loads) else sum(load.waiting for load in loads),
        slots=sum(load.slots for load in loads),
        queue_limit=sum(load.queue_limit for load in loads),
    )
