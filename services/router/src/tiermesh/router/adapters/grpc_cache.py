"""The answer cache over gRPC."""

from __future__ import annotations

import grpc
from opentelemetry.trace import Tracer
from tiermesh.api.cache.v1 import cache_pb2, cache_pb2_grpc
from tiermesh.shared.budget import Budget
from tiermesh.shared.errors import Unavailable
from tiermesh.shared.rpc import call_unary


class GrpcCache:
    """A `CachePort`."""

    def __init__(self, channel: grpc.aio.Channel, tracer: Tracer) -> None:
        self._stub = cache_pb2_grpc.CacheServiceStub(channel)
        self._tracer = tracer

    async def lookup(self, key: cache_pb2.CacheKey, *, budget: Budget) -> cache_pb2.CachedAnswer | None:
        """Returns the answer filed under `key`, or None."""
        response = await call_unary(
            self._stub.Lookup,
            cache_pb2.LookupRequest(key=key),
            name="CacheService/Lookup",
            budget=budget,
            tracer=self._tracer,
        )
        if response.result == cache_pb2.CACHE_RESULT_STORE_UNAVAILABLE:
            raise Unavailable("the cache's store does not answer")
        return response.answer if response.result == cache_pb2.CACHE_RESULT_HIT_EXACT else None

    async def store(self, key: cache_pb2.CacheKey, answer: cache_pb2.CachedAnswer, *, budget: Budget) -> bool:
        """Files an answer; returns whether it was written."""
        response = await call_unary(
            self._stub.Store,
            cache_pb2.StoreRequest(key=key, answer=answer),
            name="CacheService/Store",
            budget=budget,
            tracer=self._tracer,
        )
        return response.stored
