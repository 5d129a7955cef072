"""The answer cache over gRPC."""

from __future__ import annotations

import math
from collections.abc import Sequence

import grpc
from opentelemetry.trace import Link, NonRecordingSpan, Tracer, use_span
from tiermesh.api.cache.v1 import cache_pb2, cache_pb2_grpc
from tiermesh.router.caching.place import CachePlace, Keeping
from tiermesh.shared.budget import Budget
from tiermesh.shared.errors import InvalidRequest, TiermeshError, Unavailable
from tiermesh.shared.rpc import call_unary, is_unimplemented

_ONE_BY_ONE_S = 30.0
"""How long answers go one by one after a replica of an earlier release has refused several at a time."""


class GrpcCache:
    """A `CachePort`."""

    def __init__(self, channel: grpc.aio.Channel, tracer: Tracer) -> None:
        self._stub = cache_pb2_grpc.CacheServiceStub(channel)
        self._tracer = tracer
        self._one_by_one_until = -math.inf
        """In seconds on the clock of budgets."""

    async def lookup(self, place: CachePlace, *, budget: Budget, token_only: bool = False) -> cache_pb2.LookupResponse:
        """Returns what is kept at `place`: a hit or a miss; with `token_only`, only what storing there needs."""
        response = await call_unary(
            self._stub.Lookup,
            cache_pb2.LookupRequest(key=place.key, semantic=place.semantic, token_only=token_only, claim=_claim(place)),
            name="CacheService/Lookup",
            budget=budget,
            tracer=self._tracer,
        )
        if response.result == cache_pb2.CACHE_RESULT_STORE_UNAVAILABLE:
            raise Unavailable("the cache's store does not answer")
        return response

    async def store(self, answers: Sequence[Keeping], *, budget: Budget) -> int:
        """Files answers; returns how many were written.

        The call belongs to the trace of the first of them, and links to the requests of the others.
        """
        first, *others = (each.span for each in answers)
        with use_span(NonRecordingSpan(first), record_exception=False, set_status_on_exception=False):
            if budget.clock.monotonic() >= self._one_by_one_until:
                try:
                    return await self._store_together(answers, [Link(other) for other in others], budget)
                except TiermeshError as error:
                    if not is_unimplemented(error):
                        raise
                    # During a rollout; answers must not be lost until the last replica is new.
                    self._one_by_one_until = budget.clock.monotonic() + _ONE_BY_ONE_S
            return await self._store_one_by_one(answers, budget)

    async def _store_together(self, answers: Sequence[Keeping], links: Sequence[Link], budget: Budget) -> int:
        response = await call_unary(
            self._stub.BatchStore,
            cache_pb2.BatchStoreRequest(requests=[_request(each) for each in answers]),
            name="CacheService/BatchStore",
            budget=budget,
            tracer=self._tracer,
            links=links,
        )
        return sum(each.stored for each in response.responses)

    async def _store_one_by_one(self, answers: Sequence[Keeping], budget: Budget) -> int:
        stored = 0
        for each in answers:
            try:
                response = await call_unary(
                    self._stub.Store,
                    _request(each),
                    name="CacheService/Store",
                    budget=budget,
                    tracer=self._tracer,
                )
            except InvalidRequest:
                # As in a batch: it does not keep the others out.
                continue
            stored += response.stored
        return stored


def _request(keeping: Keeping) -> cache_pb2.StoreRequest:
    place, claim = keeping.place, keeping.place.claim
    return cache_pb2.StoreRequest(
        key=place.key,
        answer=keeping.answer,
        semantic=place.semantic,
        token=place.token,
        run_token=claim.token if claim is not None and claim.ends_with_store else "",
    )


def _claim(place: CachePlace) -> cache_pb2.RunClaim | None:
    claim = place.claim
    return cache_pb2.RunClaim(router=claim.router, trace_parent=claim.trace_parent) if claim is not None else None
