"""CacheService: proto to domain and back."""

from __future__ import annotations

from typing import Any

from opentelemetry.trace import get_current_span
from tiermesh.api.cache.v1 import cache_pb2, cache_pb2_grpc
from tiermesh.cache.admission import check_answer, check_fingerprint, check_key, check_tenant, check_ttl
from tiermesh.cache.answers import AnswerCache, Found, Result
from tiermesh.shared.budget import current_budget
from tiermesh.shared.clock import Clock

_RESULTS = {
    Result.MISS: cache_pb2.CACHE_RESULT_MISS,
    Result.HIT: cache_pb2.CACHE_RESULT_HIT_EXACT,
    Result.UNAVAILABLE: cache_pb2.CACHE_RESULT_STORE_UNAVAILABLE,
}


class CacheServicer(cache_pb2_grpc.CacheServiceServicer):
    """Serves an `AnswerCache`."""

    def __init__(self, cache: AnswerCache, clock: Clock) -> None:
        self._cache = cache
        self._clock = clock

    async def Lookup(self, request: cache_pb2.LookupRequest, context: Any) -> cache_pb2.LookupResponse:  # noqa: ARG002, N802 -- gRPC's signature
        """Finds an answer for a canonical request."""
        check_key(request.key)
        found = await self._cache.lookup(request.key.tenant, request.key.fingerprint, current_budget())
        self._describe(found)
        return cache_pb2.LookupResponse(result=_RESULTS[found.result], answer=found.answer)

    async def Store(self, request: cache_pb2.StoreRequest, context: Any) -> cache_pb2.StoreResponse:  # noqa: ARG002, N802 -- gRPC's signature
        """Keeps a complete answer."""
        check_key(request.key)
        check_answer(request.answer)
        ttl_s = check_ttl(request.ttl) if request.HasField("ttl") else None
        stored = await self._cache.keep(
            request.key.tenant, request.key.fingerprint, request.answer, ttl_s=ttl_s, budget=current_budget()
        )
        get_current_span().set_attribute("tiermesh.cache.stored", stored)
        return cache_pb2.StoreResponse(stored=stored)

    async def Invalidate(self, request: cache_pb2.InvalidateRequest, context: Any) -> cache_pb2.InvalidateResponse:  # noqa: ARG002, N802 -- gRPC's signature
        """Forgets one answer, or all of a tenant."""
        check_tenant(request.tenant, field="tenant")
        if request.fingerprint:
            check_fingerprint(request.fingerprint, field="fingerprint")
            removed = await self._cache.forget(request.tenant, request.fingerprint, current_budget())
        else:
            removed = await self._cache.forget_tenant(request.tenant, current_budget())
        get_current_span().set_attribute("tiermesh.cache.removed_count", removed)
        return cache_pb2.InvalidateResponse(removed_count=removed)

    def _describe(self, found: Found) -> None:
        span = get_current_span()
        if not span.is_recording():
            return
        span.set_attribute("tiermesh.cache.result", found.result.value)
        span.set_attribute("tiermesh.cache.key", found.label)
        if found.answer is not None:
            age_s = self._clock.wall() - found.answer.create_time.ToMicroseconds() / 1e6
            span.set_attribute("tiermesh.cache.age_ms", max(0, round(age_s * 1000)))
            span.set_attribute("tiermesh.cache.stored_bytes", found.stored_bytes)
