"""Composition root of the cache."""

from __future__ import annotations

import random
import secrets
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from tiermesh.api.cache.v1 import cache_pb2, cache_pb2_grpc
from tiermesh.cache.access import StoreAccess
from tiermesh.cache.adapters.redis import open_redis_store
from tiermesh.cache.answers import AnswerCache
from tiermesh.cache.circuit import Circuit
from tiermesh.cache.codec import Codec
from tiermesh.cache.keys import GENERATION_BYTES
from tiermesh.cache.ports import AnswerStore
from tiermesh.cache.servicer import CacheServicer
from tiermesh.shared.clock import SYSTEM_CLOCK, Clock
from tiermesh.shared.config import TiermeshConfig
from tiermesh.shared.endpoints import span_endpoint
from tiermesh.shared.process import Process
from tiermesh.shared.redis_server import redis_url
from tiermesh.shared.rpc import Service, open_server, serve_until_signal
from tiermesh.shared.telemetry import get_logger, open_tracing

_log = get_logger(__name__)


@asynccontextmanager
async def wire(
    config: TiermeshConfig,
    store: AnswerStore,
    *,
    clock: Clock = SYSTEM_CLOCK,
    rng: random.Random | None = None,
) -> AsyncIterator[Service]:
    """Builds the service over a store; on exit, operations nobody waits for any more are ended.

    Args:
        config: The mesh's.
        store: Where the answers are.
        clock: Paces the circuit and dates answers.
        rng: Varies times to live; the default is seeded by the system.
    """
    access = StoreAccess(Circuit(clock))
    cache = AnswerCache(
        store,
        access,
        Codec(config.cache.max_answer_bytes),
        ttl_s=config.cache.ttl_s,
        timeout_s=config.cache.store_timeout_ms / 1000,
        random_fraction=(rng or random.Random()).random,  # noqa: S311 -- jitter, not a secret
        random_generation=lambda: secrets.token_bytes(GENERATION_BYTES),
    )
    servicer = CacheServicer(cache, clock)
    name = cache_pb2.DESCRIPTOR.services_by_name["CacheService"].full_name
    try:
        yield Service(name, lambda server: cache_pb2_grpc.add_CacheServiceServicer_to_server(servicer, server))
    finally:
        await access.aclose()


async def run(process: Process) -> None:
    """Serves until the process is told to stop. A Redis that is down makes misses, not failures."""
    config = process.config
    async with (
        open_tracing(
            "tiermesh-cache",
            instance=process.instance,
            endpoint=span_endpoint(config, process.environ),
            sample_ratio=config.tracing.sample_ratio,
        ) as tracing,
        open_redis_store(redis_url(config, process.environ)) as store,
        wire(config, store) as service,
        open_server(
            [service],
            address=process.address,
            tracing=tracing,
            default_deadline_s=config.deadlines.max_ms / 1000,
            drain_s=config.drain_s,
        ) as server,
    ):
        await server.set_serving(True)
        _log.info("serving", address=process.address)
        await serve_until_signal(server, drain_s=config.drain_s)
