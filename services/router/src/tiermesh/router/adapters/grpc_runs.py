"""Runs that routers share, over gRPC."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing

import grpc
from opentelemetry.trace import Tracer
from tiermesh.api.cache.v1 import cache_pb2, cache_pb2_grpc
from tiermesh.api.router.v1 import router_pb2
from tiermesh.shared.budget import Budget
from tiermesh.shared.rpc import call_stream, call_unary


class GrpcRuns:
    """A `RunsPort`.

    Args:
        channel: To the cache.
        tracer: Records client spans.
    """

    def __init__(self, channel: grpc.aio.Channel, tracer: Tracer) -> None:
        self._stub = cache_pb2_grpc.CacheServiceStub(channel)
        self._tracer = tracer

    async def lead(self, router: str, *, budget: Budget) -> AsyncGenerator[Sequence[str], None]:
        """Stands for this router; yields tokens of its runs that are wanted elsewhere."""
        request, name = cache_pb2.LeadRequest(router=router), "CacheService/Lead"
        async with aclosing(
            call_stream(self._stub.Lead, request, name=name, budget=budget, tracer=self._tracer)
        ) as responses:
            async for response in responses:
                yield response.wanted_tokens

    async def publish(
        self, token: str, first: int, events: Sequence[router_pb2.GenerateResponse], *, last: bool, budget: Budget
    ) -> int:
        """Hands over events; returns how many still wait for more."""
        response = await call_unary(
            self._stub.Publish,
            cache_pb2.PublishRequest(token=token, first_event_index=first, events=events, last=last),
            name="CacheService/Publish",
            budget=budget,
            tracer=self._tracer,
        )
        return 0 if response.superseded else response.follower_count

    async def follow(self, token: str, *, budget: Budget) -> AsyncGenerator[router_pb2.GenerateResponse, None]:
        """Streams the events of another router's run."""
        request, name = cache_pb2.FollowRequest(token=token), "CacheService/Follow"
        async with aclosing(
            call_stream(self._stub.Follow, request, name=name, budget=budget, tracer=self._tracer)
        ) as responses:
            async for response in responses:
                for event in response.events:
                    yield event
