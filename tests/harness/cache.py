"""The cache's real server in this process."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable
from contextlib import asynccontextmanager
from dataclasses import dataclass

import grpc
from harness.answers import make_answer, make_key
from tiermesh.api.cache.v1 import cache_pb2, cache_pb2_grpc
from tiermesh.cache.app import SemanticParts, wire
from tiermesh.cache.leeway import USUAL, Leeway
from tiermesh.cache.ports import AnswerStore, ChangeLog, RunBoard
from tiermesh.shared.budget import Budget
from tiermesh.shared.clock import SYSTEM_CLOCK, Clock
from tiermesh.shared.config import TiermeshConfig
from tiermesh.shared.errors import Unavailable
from tiermesh.shared.rpc import call_unary, open_channel, open_server
from tiermesh.shared.telemetry import Tracing
from tiermesh.shared.testing import recorded_tracing

AMPLE = Leeway(step_s=60.0, sweep_s=60.0, heard_s=60.0)
"""More than a machine stalls: what takes its time is waited for."""


@dataclass
class RunningCache:
    """A cache server and a client of it."""

    stub: cache_pb2_grpc.CacheServiceAsyncStub
    tracing: Tracing
    channel: grpc.aio.Channel

    async def call(self, method: str, request: object, *, timeout_s: float = 60.0):
        """Makes a call the way services do."""
        return await call_unary(
            getattr(self.stub, method),
            request,
            name=f"CacheService/{method}",
            budget=Budget.of(timeout_s),
            tracer=self.tracing.tracer,
        )

    async def lookup(self, text: str = "question", tenant: str = "local") -> cache_pb2.LookupResponse:
        """Looks an answer up."""
        return await self.call("Lookup", cache_pb2.LookupRequest(key=make_key(text, tenant)))

    async def result(self, text: str = "question", tenant: str = "local") -> str:
        """Looks an answer up and returns the result's name."""
        return cache_pb2.CacheResult.Name((await self.lookup(text, tenant)).result).removeprefix("CACHE_RESULT_")

    async def store(
        self,
        text: str = "question",
        answer: cache_pb2.CachedAnswer | None = None,
        tenant: str = "local",
        **fields: object,
    ) -> bool:
        """Keeps an answer."""
        request = cache_pb2.StoreRequest(key=make_key(text, tenant), answer=answer or make_answer(text), **fields)
        return (await self.call("Store", request)).stored

    async def invalidate(self, tenant: str = "local", fingerprint: bytes = b"") -> int:
        """Forgets answers."""
        request = cache_pb2.InvalidateRequest(tenant=tenant, fingerprint=fingerprint)
        return (await self.call("Invalidate", request)).removed_count


async def confirmed(invalidation: Awaitable[object]) -> bool:
    """Whether an invalidation went through: where it did not its caller is told, and tries again."""
    try:
        await invalidation
    except Unavailable:
        return False
    return True


def cache_config(**cache: object) -> TiermeshConfig:
    """Returns a configuration with these values in its cache section.

    `store_timeout_ms` may be longer than meshes may have it, so that a busy machine does not turn hits into misses.
    """
    patience = {name: cache.pop(name) for name in ("store_timeout_ms",) if name in cache}
    config = TiermeshConfig.model_validate(
        {
            "tenants": [{"name": "local", "key_env": "KEY"}],
            "tiers": [{"name": "l0", "backend": "rules"}],
            "cache": cache,
        }
    )
    return config.model_copy(update={"cache": config.cache.model_copy(update=patience)})


@asynccontextmanager
async def running_cache(
    store: AnswerStore,
    *,
    clock: Clock = SYSTEM_CLOCK,
    log: ChangeLog | None = None,
    semantic: SemanticParts | None = None,
    board: RunBoard | None = None,
    leeway: Leeway = USUAL,
    **cache: object,
) -> AsyncIterator[RunningCache]:
    """Serves a cache over a store on a free port."""
    ending = asyncio.Event()
    with recorded_tracing() as tracing:
        async with (
            wire(
                cache_config(**cache),
                store,
                clock=clock,
                log=log,
                semantic=semantic,
                board=board,
                ending=ending,
                leeway=leeway,
            ) as service,
            open_server([service], address="127.0.0.1:0", tracing=tracing, default_deadline_s=100) as server,
            open_channel(f"127.0.0.1:{server.port}") as channel,
        ):
            await server.set_serving(True)
            try:
                yield RunningCache(cache_pb2_grpc.CacheServiceStub(channel), tracing, channel)
            finally:
                ending.set()
