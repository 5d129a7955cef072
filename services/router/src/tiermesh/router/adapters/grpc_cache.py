"""The answer cache over gRPC."""

from __future__ import annotations

from collections.abc import Sequence

import grpc
from opentelemetry.trace import Link, NonRecordingSpan, Tracer, use_span
from tiermesh.api.cache.v1 import cache_pb2, cache_pb2_grpc
from tiermesh.router.caching.place import CachePlace, Keeping
from tiermesh.shared.budget import Budget
from tiermesh.shared.errors import Unavailable
from tiermesh.shared.rpc import call_unary


class GrpcCache:
    """A `CachePort`."""

    def __init__(self, channel: grpc.aio.Channel, tracer: Tracer) -> None:
        self._stub = cache_pb2_grpc.CacheServiceStub(channel)
        self._tracer = tracer

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
            response = await call_unary(
                self._stub.BatchStore,
                cache_pb2.BatchStoreRequest(requests=[_request(each) for each in answers]),
                name="CacheService/BatchStore",
                budget=budget,
                tracer=self._tracer,
                links=[Link(other) for other in others],
            )
        return sum(each.stored for each in response.responses)


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
