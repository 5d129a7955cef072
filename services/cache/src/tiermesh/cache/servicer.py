"""CacheService: proto to domain and back."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import aclosing
from typing import Any

from opentelemetry.trace import get_current_span
from tiermesh.api.cache.v1 import cache_pb2, cache_pb2_grpc
from tiermesh.cache.admission import (
    check_answer,
    check_batch,
    check_fingerprint,
    check_key,
    check_semantic,
    check_tags,
    check_tenant,
    check_token,
    check_ttl,
)
from tiermesh.cache.answers import Result
from tiermesh.cache.keeping import Offer
from tiermesh.cache.layered import LayeredCache, Looked
from tiermesh.cache.metrics import CacheMetrics
from tiermesh.cache.run_tokens import check_claimant, check_run_token
from tiermesh.cache.runs import Runs
from tiermesh.cache.tags import MODEL, PROMPT
from tiermesh.shared.budget import current_budget
from tiermesh.shared.clock import Clock
from tiermesh.shared.errors import InvalidRequest, Unavailable
from tiermesh.shared.telemetry import get_logger

_log = get_logger(__name__)
_RESULTS = {
    Result.MISS: cache_pb2.CACHE_RESULT_MISS,
    Result.HIT: cache_pb2.CACHE_RESULT_HIT_EXACT,
    Result.HIT_SEMANTIC: cache_pb2.CACHE_RESULT_HIT_SEMANTIC,
    Result.UNAVAILABLE: cache_pb2.CACHE_RESULT_STORE_UNAVAILABLE,
}


class CacheServicer(cache_pb2_grpc.CacheServiceServicer):
    """Serves a `LayeredCache`.

    Args:
        cache: Finds, keeps and forgets answers.
        clock: Dates answers.
        metrics: Counts lookups.
        runs: Who runs what; None where runs are not shared between routers.
    """

    def __init__(
        self, cache: LayeredCache, clock: Clock, metrics: CacheMetrics | None = None, runs: Runs | None = None
    ) -> None:
        self._cache = cache
        self._runs = runs
        self._clock = clock
        self._metrics = metrics or CacheMetrics()

    async def Lookup(self, request: cache_pb2.LookupRequest, context: Any) -> cache_pb2.LookupResponse:  # noqa: ARG002, N802 -- gRPC's signature
        """Finds an answer for a canonical request."""
        check_key(request.key)
        if request.HasField("semantic"):
            check_semantic(request.semantic)
        if request.HasField("claim"):
            check_claimant(request.claim.router, request.claim.trace_parent, field="claim")
        began = self._clock.monotonic()
        looked = await self._cache.lookup(request, current_budget())
        if not request.token_only:
            # Whoever is to make an answer anew has missed nothing.
            self._metrics.looked_up(looked, self._clock.monotonic() - began)
        answer = looked.found.answer
        stale = answer is not None and self._cache.exact.is_stale(answer)
        self._describe(looked, stale=stale)
        response = cache_pb2.LookupResponse(
            result=_RESULTS[looked.found.result],
            answer=answer,
            similarity=looked.match.similarity,
            refused_by=looked.match.refused_by,
            threshold=max(0.0, round(looked.match.threshold, 6)),
            passed_guards=looked.match.passed,
            stale=stale,
            store_token=looked.found.token,
            run=looked.run,
        )
        if answer is not None:
            # The cache's own, and no part of what was answered.
            response.answer.ClearField("fresh_until_time")
            response.answer.ClearField("tags")
            response.answer.ClearField("invalidation_mark")
        return response

    async def Store(self, request: cache_pb2.StoreRequest, context: Any) -> cache_pb2.StoreResponse:  # noqa: ARG002, N802 -- gRPC's signature
        """Keeps a complete answer."""
        (stored,) = await self._keep([self._offer(request)])
        get_current_span().set_attribute("tiermesh.cache.stored", stored)
        return cache_pb2.StoreResponse(stored=stored)

    async def BatchStore(self, request: cache_pb2.BatchStoreRequest, context: Any) -> cache_pb2.BatchStoreResponse:  # noqa: ARG002, N802 -- gRPC's signature
        """Keeps several complete answers together: nobody waits for any one of them."""
        check_batch(len(request.requests))
        offers = [self._offer_if_valid(each) for each in request.requests]
        kept = iter(await self._keep([offer for offer in offers if offer is not None]))
        stored = [offer is not None and next(kept) for offer in offers]
        get_current_span().set_attributes(
            {"tiermesh.cache.offered_count": len(stored), "tiermesh.cache.stored_count": sum(stored)}
        )
        return cache_pb2.BatchStoreResponse(responses=[cache_pb2.StoreResponse(stored=each) for each in stored])

    def _offer_if_valid(self, request: cache_pb2.StoreRequest) -> Offer | None:
        try:
            return self._offer(request)
        except InvalidRequest as error:
            _log.warning("an answer of a batch may not be kept", field=error.field, why=error.message)
            return None

    def _offer(self, request: cache_pb2.StoreRequest) -> Offer:
        check_key(request.key)
        check_answer(request.answer)
        ttl_s = check_ttl(request.ttl) if request.HasField("ttl") else None
        if request.HasField("semantic"):
            check_semantic(request.semantic)
        check_tags(request.tags)
        check_token(request.token)
        if request.run_token:
            check_run_token(request.run_token)
        prompt = [PROMPT + request.prompt_version] if request.prompt_version else []
        request.answer.tags[:] = [*request.tags, *prompt]
        # How long it is fresh is for the cache to say, not for whoever stores it.
        request.answer.ClearField("fresh_until_time")
        return Offer(
            request.key.tenant,
            request.key.fingerprint,
            request.answer,
            ttl_s=ttl_s,
            token=request.token,
            run_token=request.run_token if self._runs is not None else "",
            semantic=request.semantic if request.HasField("semantic") else None,
        )

    async def _keep(self, offers: Sequence[Offer]) -> list[bool]:
        stored = await self._cache.keep(offers, current_budget())
        for each in stored:
            self._metrics.stored(each)
        return stored

    async def Invalidate(self, request: cache_pb2.InvalidateRequest, context: Any) -> cache_pb2.InvalidateResponse:  # noqa: ARG002, N802 -- gRPC's signature
        """Forgets one answer, or all of a tenant."""
        check_tenant(request.tenant, field="tenant")
        check_tags(request.tags)
        ways = [bool(way) for way in (request.fingerprint, request.tags, request.model, request.prompt_version)]
        if sum(ways) > 1:
            raise InvalidRequest("set one of fingerprint, tags, model and prompt_version", field="fingerprint")
        forgetting, budget, removed = self._cache.invalidation, current_budget(), 0
        if request.fingerprint:
            check_fingerprint(request.fingerprint, field="fingerprint")
            removed = await forgetting.forget(request.tenant, request.fingerprint, budget)
        elif request.tags:
            await forgetting.forget_tags(request.tenant, list(request.tags), budget)
        elif request.model:
            await forgetting.forget_tags(request.tenant, [MODEL + request.model], budget)
        elif request.prompt_version:
            await forgetting.forget_tags(request.tenant, [PROMPT + request.prompt_version], budget)
        else:
            removed = await forgetting.forget_tenant(request.tenant, budget)
        get_current_span().set_attribute("tiermesh.cache.removed_count", removed)
        return cache_pb2.InvalidateResponse(removed_count=removed)

    async def Lead(self, request: cache_pb2.LeadRequest, context: Any) -> AsyncIterator[cache_pb2.LeadResponse]:  # noqa: ARG002, N802 -- gRPC's signature
        """Stands for one router."""
        check_claimant(request.router, "", field="lead")
        async with aclosing(self._board().lead(request.router)) as heard:
            async for tokens in heard:
                yield cache_pb2.LeadResponse(wanted_tokens=tokens)

    async def Publish(self, request: cache_pb2.PublishRequest, context: Any) -> cache_pb2.PublishResponse:  # noqa: ARG002, N802 -- gRPC's signature
        """Takes events of a claimed run."""
        check_run_token(request.token)
        return await self._board().publish(request, current_budget())

    async def Follow(self, request: cache_pb2.FollowRequest, context: Any) -> AsyncIterator[cache_pb2.FollowResponse]:  # noqa: ARG002, N802 -- gRPC's signature
        """Streams the events of a run."""
        check_run_token(request.token)
        async with aclosing(self._board().follow(request.token)) as responses:
            async for response in responses:
                yield response

    def _board(self) -> Runs:
        if self._runs is None:
            raise Unavailable("runs are not shared between routers (cache.coalescing)")
        return self._runs

    def _describe(self, looked: Looked, *, stale: bool) -> None:
        found, match = looked.found, looked.match
        span = get_current_span()
        if not span.is_recording():
            return
        span.set_attribute("tiermesh.cache.result", found.result.value)
        span.set_attribute("tiermesh.cache.key", found.label)
        if match.candidate is not None:
            span.set_attribute("tiermesh.cache.similarity", round(match.similarity, 3))
        if match.refused_by:
            span.set_attribute("tiermesh.cache.refused_by", match.refused_by)
        if found.answer is not None:
            span.set_attribute("tiermesh.cache.local", found.is_local)
            span.set_attribute("tiermesh.cache.stale", stale)
            age_s = self._clock.wall() - found.answer.create_time.ToMicroseconds() / 1e6
            span.set_attribute("tiermesh.cache.age_ms", max(0, round(age_s * 1000)))
            span.set_attribute("tiermesh.cache.stored_bytes", found.stored_bytes)
