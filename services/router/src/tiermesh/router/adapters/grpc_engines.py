"""The engines of every tier over gRPC: one channel a tier, opened on first use and kept."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing

import grpc
from opentelemetry.trace import Tracer
from tiermesh.api.common.v1 import chat_pb2
from tiermesh.api.engine.v1 import engine_pb2, engine_pb2_grpc
from tiermesh.shared.budget import Budget
from tiermesh.shared.endpoints import engine_cluster
from tiermesh.shared.headers import BATCH, PREFIX, PRIORITY
from tiermesh.shared.prefix import shared_prefix
from tiermesh.shared.rpc import call_stream

_BATCH = (PRIORITY, BATCH)


class GrpcEnginePool:
    """An `EnginePool`.

    Tiers come and go with the configuration. The channel of one that has gone stays, idle, until
    the router stops: answers may still be on their way through it.

    Args:
        connect: Returns the channel to a cluster, by name; the caller closes it.
        tracer: Records client spans.
    """

    def __init__(self, connect: Callable[[str], grpc.aio.Channel], tracer: Tracer) -> None:
        self._connect = connect
        self._tracer = tracer
        self._stubs: dict[str, engine_pb2_grpc.EngineServiceAsyncStub] = {}

    def generate(
        self, tier: str, request: engine_pb2.GenerateRequest, *, budget: Budget
    ) -> AsyncGenerator[engine_pb2.GenerateResponse, None]:
        """Streams an answer from one engine of `tier`. Closing the generator aborts the generation."""
        stub = self._stubs.get(tier)
        if stub is None:
            stub = self._stubs[tier] = engine_pb2_grpc.EngineServiceStub(self._connect(engine_cluster(tier)))
        request.joins_events = True
        responses = call_stream(
            stub.Generate,
            request,
            name="EngineService/Generate",
            budget=budget,
            tracer=self._tracer,
            on_span=lambda span: span.set_attribute("tiermesh.tier", tier),
            metadata=_metadata(request),
        )
        return _one_by_one(responses)


async def _one_by_one(
    responses: AsyncGenerator[engine_pb2.GenerateResponse, None],
) -> AsyncGenerator[engine_pb2.GenerateResponse, None]:
    """Yields every event apart, also those that came in one message."""
    async with aclosing(responses):
        async for response in responses:
            yield response
            for event in response.following:
                yield event


def _metadata(request: engine_pb2.GenerateRequest) -> tuple[tuple[str, str], ...]:
    prefix = (PREFIX, shared_prefix(request.messages))
    return (prefix, _BATCH) if request.priority == chat_pb2.PRIORITY_BATCH else (prefix,)
