"""How long the router bears with what happens beside requests, and how long it remembers what calls have found."""

from __future__ import annotations

from dataclasses import dataclass

from tiermesh.router.caching.background import RERUN_DRAIN_S
from tiermesh.router.caching.store_queue import CALL_S as STORE_S
from tiermesh.router.caching.store_queue import DRAIN_S as STORE_DRAIN_S
from tiermesh.router.coalescing.neighbours import LOOKUP_S
from tiermesh.router.coalescing.publisher import PUBLISH_S
from tiermesh.router.outcomes.sender import CALL_S as OUTCOME_S
from tiermesh.router.tiers.health import MEMORY_S


@dataclass(frozen=True, slots=True)
class Leeway:
    """All in seconds. The defaults suit a mesh; whoever watches a router on a machine that stalls gives it more."""

    store_s: float = STORE_S
    """A call that takes answers to the cache."""
    store_drain_s: float = STORE_DRAIN_S
    """What is queued for the cache, to leave on shutdown."""
    rerun_drain_s: float = RERUN_DRAIN_S
    """Stale answers that are being made anew, to end on shutdown."""
    publish_s: float = PUBLISH_S
    """A call that hands events of a run to those who wait for it at other routers."""
    lookup_s: float = LOOKUP_S
    """The answer to a lookup that has claimed a run, once others want that run."""
    outcome_s: float = OUTCOME_S
    """A call that takes records to the log of outcomes."""
    failure_s: float = MEMORY_S
    """For how long a tier that failed is tried last."""


USUAL = Leeway()
