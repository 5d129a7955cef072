"""Two routers of one mesh in this process: a real cache service on a real Redis, scripted engines."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass

import grpc
from harness.cache import cache_config
from harness.eventually import eventually
from harness.router import AMPLE, METADATA, Answer, ask, make_settings
from tiermesh.api.cache.v1 import cache_pb2, cache_pb2_grpc
from tiermesh.api.router.v1 import router_pb2, router_pb2_grpc
from tiermesh.cache.adapters.redis_open import open_redis_store
from tiermesh.cache.app import make_board
from tiermesh.cache.app import wire as wire_cache
from tiermesh.cache.leeway import Leeway
from tiermesh.router.app import Wired, wire
from tiermesh.shared.clock import SYSTEM_CLOCK, Clock
from tiermesh.shared.rpc import error_from_rpc, open_channel, open_server
from tiermesh.shared.testing import FakeClassifier, RecordedTracing, ScriptedEngine, answer_steps, recorded_tracing


@dataclass
class OneRouter:
    """A router and a client of it."""

    wired: Wired
    stub: router_pb2_grpc.RouterServiceAsyncStub
    tracing: RecordedTracing
    hearing: asyncio.Task[None]

    def call(self, request: router_pb2.GenerateRequest | None = None, *, metadata=METADATA, timeout: float = 30):
        """Begins a request."""
        return self.stub.Generate(request or ask(), timeout=timeout, metadata=metadata)

    async def ask(self, request: router_pb2.GenerateRequest | None = None, **options) -> Answer:
        """Asks, and reads the whole answer."""
        return await read(self.call(request, **options))

    async def vanish(self) -> None:
        """Ends what this router says of itself, as if its process had been killed."""
        self.hearing.cancel()
        await asyncio.gather(self.hearing, return_exceptions=True)


async def read(call) -> Answer:
    """Reads what is left of an answer."""
    answer = Answer()
    try:
        while (message := await call.read()) is not grpc.aio.EOF:
            answer.messages.append(message)
    except grpc.aio.AioRpcError as error:
        answer.error = error_from_rpc(error)
    answer.headers = dict(await call.initial_metadata())
    return answer


@dataclass
class TwoRouters:
    """Both, and what they share."""

    first: OneRouter
    second: OneRouter
    engine: ScriptedEngine
    cache: cache_pb2_grpc.CacheServiceAsyncStub

    async def invalidate(self, **fields: object) -> None:
        """Forgets answers of the tenant that asks."""
        await self.cache.Invalidate(cache_pb2.InvalidateRequest(tenant="acme", **fields), timeout=60)


@asynccontextmanager
async def two_routers(
    redis_url: str,
    *,
    waiting_s: float = 60.0,
    store_s: float = 60.0,
    store_timeout_ms: int = 60_000,
    clock: Clock = SYSTEM_CLOCK,
    **cache: object,
) -> AsyncIterator[TwoRouters]:
    """Starts everything; both routers are heard by the cache.

    Args:
        redis_url: A Redis.
        waiting_s: Silence after which those who wait take Redis for gone; longer than a busy machine pauses.
        store_s: Longest wait for one reply of Redis; likewise.
        store_timeout_ms: Longest wait of a lookup for Redis.
        clock: The cache's own, by which answers grow stale.
        cache: Further settings of the cache.
    """
    engine, classifier = ScriptedEngine(*answer_steps("one ", "two ", "三")), FakeClassifier()
    # Generous, so that a busy machine does not turn into misses.
    settings = make_settings(cache=cache)
    with recorded_tracing() as tracing:
        async with AsyncExitStack() as stack:
            store = await stack.enter_async_context(open_redis_store(redis_url, socket_timeout_s=store_s))
            waiting = await stack.enter_async_context(open_redis_store(redis_url, socket_timeout_s=waiting_s))
            # Longer than a busy machine pauses: what is gone says so here.
            board = make_board(store, waiting, alive_ms=100_000, follows_ms=100_000)
            ending = asyncio.Event()
            config = cache_config(store_timeout_ms=store_timeout_ms, **cache)
            cache_service = await stack.enter_async_context(
                wire_cache(config, store, clock=clock, board=board, ending=ending, leeway=Leeway(step_s=store_s))
            )

            async def host(*services):
                opened = open_server(services, address="127.0.0.1:0", tracing=tracing, default_deadline_s=60)
                return (await stack.enter_async_context(opened)).port

            ports = {
                "cache": await host(cache_service),
                "classifier": await host(classifier.service()),
                "engine-l1": await host(engine.service()),
            }
            stack.callback(ending.set)
            routers = [await stack.enter_async_context(_router(settings, ports)) for _ in range(2)]
            for router in routers:
                async with asyncio.timeout(60):
                    await router.wired.neighbours.is_heard.wait()
            channel = await stack.enter_async_context(open_channel(f"127.0.0.1:{ports['cache']}"))
            yield TwoRouters(*routers, engine, cache_pb2_grpc.CacheServiceStub(channel))


@asynccontextmanager
async def _router(settings, ports) -> AsyncIterator[OneRouter]:
    channels = {name: open_channel(f"127.0.0.1:{port}", authority=name) for name, port in ports.items()}
    with recorded_tracing() as tracing:
        wired = wire(
            settings,
            connect=lambda name: channels.get(name, channels["cache"]),
            tracer=tracing.tracer,
            leeway=AMPLE,
        )
        async with (
            open_server(wired.services, address="127.0.0.1:0", tracing=tracing, default_deadline_s=60) as server,
            open_channel(f"127.0.0.1:{server.port}") as channel,
        ):
            hearing = asyncio.create_task(wired.neighbours.run(enabled=lambda: True))
            try:
                yield OneRouter(wired, router_pb2_grpc.RouterServiceStub(channel), tracing, hearing)
            finally:
                await wired.stores.drain()
                hearing.cancel()
                await asyncio.gather(hearing, return_exceptions=True)
        await wired.neighbours.drain()
        for channel in channels.values():
            await channel.close()


async def joined(leading: OneRouter) -> None:
    """Waits until a router hands the events of a run that it leads to the other one."""

    async def published() -> bool:
        claims = [flight.claim for flight in leading.wired.flow.flights.under_way]
        return any(claim is not None and claim.is_wanted for claim in claims)

    await eventually(published)
