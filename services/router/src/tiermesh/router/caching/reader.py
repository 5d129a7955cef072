"""Asks the cache about a request, and says what follows from the reply."""

from __future__ import annotations

from dataclasses import dataclass, replace

from tiermesh.api.cache.v1 import cache_pb2
from tiermesh.api.router.v1 import router_pb2
from tiermesh.router.caching.place import CachePlace
from tiermesh.router.caching.policy import CachePlan
from tiermesh.router.call import Call
from tiermesh.router.ports import CachePort
from tiermesh.router.telling import observe
from tiermesh.router.telling.label import finding_of
from tiermesh.shared.errors import TiermeshError

HITS = (cache_pb2.CACHE_RESULT_HIT_EXACT, cache_pb2.CACHE_RESULT_HIT_SEMANTIC)
_UNSAID = ("", "threshold", "gone")
"""The best candidate was not alike, as in most misses, or its answer is kept no longer."""
_NO_GUARDS = ("shadow", "late")


@dataclass(frozen=True, slots=True)
class Looked:
    """What the cache has to do with a request."""

    status: router_pb2.CacheStatus.ValueType = router_pb2.CACHE_STATUS_BYPASS
    response: cache_pb2.LookupResponse | None = None
    """What it said; None where it was not asked for an answer or did not give one in time."""
    keep_at: CachePlace | None = None
    """Where an answer made now may be kept."""

    @property
    def hit(self) -> cache_pb2.LookupResponse | None:
        """The answer that was found."""
        return self.response if self.response is not None and self.response.result in HITS else None

    @property
    def token(self) -> bytes | None:
        """What storing an answer made now takes; None where the cache did not say."""
        return self.keep_at.token if self.keep_at is not None else None

    @property
    def elsewhere(self) -> cache_pb2.ClaimedRun | None:
        """The run of the same request that another router leads."""
        if self.response is None or not self.response.HasField("run") or self.response.run.leading:
            return None
        return self.response.run

    @property
    def reasons(self) -> tuple[str, ...]:
        """What the label says of a miss: the guard that refused a near answer, or that shadow mode held one back."""
        if self.response is None or self.hit is not None:
            return ()
        refused_by = self.response.refused_by
        if refused_by in _UNSAID or not (self.response.similarity or refused_by in _NO_GUARDS):
            return ()
        return (f"cache:{refused_by}" if refused_by in _NO_GUARDS else f"cache:near:{refused_by}",)


class CacheReader:
    """Reads the cache as a request allows.

    Args:
        cache: Answers given before.
    """

    def __init__(self, cache: CachePort) -> None:
        self._cache = cache

    async def look(self, call: Call, place: CachePlace, plan: CachePlan) -> Looked:
        """Returns what the cache has for a request. One that fails or is late is a miss that keeps nothing.

        An answer that was begun before an invalidation must not be stored after it, and only a lookup can
        tell: a request that only writes asks for that alone, and where the cache does not say, nothing is kept.

        Args:
            call: The request.
            place: Where its answer is or would be.
            plan: How it uses the cache.
        """
        if not plan.read and not plan.write:
            return Looked()
        begin, budget, outcome = (
            call.account.now(),
            call.caller.budget.child(cap=call.snapshot.config.deadlines.cache_ms / 1000),
            "cancelled",
        )
        try:
            found = await self._cache.lookup(place, budget=budget, token_only=not plan.read)
            outcome = "hit" if found.result in HITS else "miss"
        except TiermeshError as error:
            outcome = error.reason
            return Looked(router_pb2.CACHE_STATUS_UNAVAILABLE if plan.read else router_pb2.CACHE_STATUS_BYPASS)
        finally:
            call.account.add("cache", begin, budget=budget, outcome=outcome)
        keep_at = replace(place, token=found.store_token) if plan.write else None
        if not plan.read:
            return Looked(keep_at=keep_at)
        observe.record_lookup(call.span, found)
        call.trail.cache = finding_of(found)
        if found.run.leading and place.claim is not None:
            place.claim.token = found.run.token
        hit = found.result in HITS
        status = router_pb2.CACHE_STATUS_HIT if hit else router_pb2.CACHE_STATUS_MISS
        return Looked(status, found, keep_at)
