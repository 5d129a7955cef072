"""Composition root of the cache."""

from __future__ import annotations

import asyncio
import random
import secrets
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from dataclasses import dataclass

from opentelemetry.metrics import Meter
from tiermesh.api.cache.v1 import cache_pb2, cache_pb2_grpc
from tiermesh.cache.access import StoreAccess
from tiermesh.cache.adapters.redis import RedisStore
from tiermesh.cache.adapters.redis_cluster import RedisClusterStore
from tiermesh.cache.adapters.redis_cluster_runs import RedisClusterRuns
from tiermesh.cache.adapters.redis_log import RedisLog
from tiermesh.cache.adapters.redis_open import SOCKET_TIMEOUT_S, open_redis_store
from tiermesh.cache.adapters.redis_runs import ALIVE_MS, FOLLOWS_MS, RedisRuns
from tiermesh.cache.answers import AnswerCache
from tiermesh.cache.circuit import Circuit
from tiermesh.cache.codec import Codec
from tiermesh.cache.embedder_files import earlier_folders, embedder_folder, is_fetched
from tiermesh.cache.follower import Follower
from tiermesh.cache.forgotten import Forgotten
from tiermesh.cache.freshness import Freshness
from tiermesh.cache.generations import LastGenerations
from tiermesh.cache.invalidation import Invalidation
from tiermesh.cache.keeping import AnswerKeeper
from tiermesh.cache.keys import GENERATION_BYTES
from tiermesh.cache.layered import LayeredCache
from tiermesh.cache.leeway import USUAL, Leeway
from tiermesh.cache.local import LocalAnswers
from tiermesh.cache.metrics import CacheMetrics
from tiermesh.cache.ports import AnswerStore, ChangeLog, Embedder, Neighbours, RunBoard
from tiermesh.cache.run_tokens import RANDOM_BYTES
from tiermesh.cache.runs import Runs
from tiermesh.cache.semantic.index import QuestionIndex
from tiermesh.cache.semantic.lexicon import chinese, english
from tiermesh.cache.semantic.reader import QuestionReader
from tiermesh.cache.semantic.thesaurus import thesaurus
from tiermesh.cache.semantic.tier import SemanticTier
from tiermesh.cache.servicer import CacheServicer
from tiermesh.shared.clock import SYSTEM_CLOCK, Clock
from tiermesh.shared.config import TiermeshConfig
from tiermesh.shared.errors import ModelLoadFailed
from tiermesh.shared.process import Process
from tiermesh.shared.redis_server import redis_url
from tiermesh.shared.rpc import Service, open_server, serve_until_signal
from tiermesh.shared.telemetry import get_logger

_log = get_logger(__name__)
_STORING_S = 60.0
"""What storing an answer may take, once it is made, at the very most."""
_WAITING = 64
"""Connections for those who wait: routers for who wants their runs, followers for events."""
_WAITING_S = 0.5
_HEARING_S = 2.0
_LOCAL_S = 60.0
"""Longest time that an answer is given from a replica's own memory without asking the store."""


@asynccontextmanager
async def wire(
    config: TiermeshConfig,
    store: AnswerStore,
    *,
    clock: Clock = SYSTEM_CLOCK,
    rng: random.Random | None = None,
    log: ChangeLog | None = None,
    semantic: SemanticParts | None = None,
    meter: Meter | None = None,
    board: RunBoard | None = None,
    ending: asyncio.Event | None = None,
    leeway: Leeway = USUAL,
) -> AsyncIterator[Service]:
    """Builds the service over a store; on exit, operations nobody waits for any more are ended.

    Args:
        config: The mesh's.
        store: Where the answers are.
        clock: Paces the circuit and dates answers.
        rng: Varies times to live; the default is seeded by the system.
        log: How replicas hear of each other's changes; without it nothing is kept in this process.
        semantic: What the semantic tier is made of; None where it is off.
        meter: Makes instruments; without one nothing is counted.
        board: Where routers see who runs what; None where runs are not shared between them.
        ending: Set when the server is about to drain, which streams without an end must not hold up.
        leeway: How long what is no lookup may take.
    """
    circuit = Circuit(clock)
    access = StoreAccess(circuit)
    local = _local_layer(config, clock) if log is not None else None
    index = None
    if semantic is not None:
        index = QuestionIndex(semantic.make_neighbours, max_entries=config.cache.semantic_entries, clock=clock)
    timeout_s = config.cache.store_timeout_ms / 1000
    codec, generations = Codec(config.cache.max_answer_bytes), LastGenerations()
    forgotten, longest_s = Forgotten(is_complete=log is None), config.deadlines.max_ms / 1000 + _STORING_S
    freshness = Freshness(
        config.cache.ttl_s,
        config.cache.ttl_s_by_task_type,
        config.cache.stale_s_by_task_type,
        frozenset(config.cache.uncached_task_types),
    )
    exact = AnswerCache(
        store,
        access,
        codec,
        freshness=freshness,
        clock=clock,
        timeout_s=timeout_s,
        random_generation=_random_generation,
        generations=generations,
        forgotten=forgotten,
        tombstone_ms=round(longest_s * 1000),
        local=local,
        runs=board,
    )
    keeper = AnswerKeeper(
        store,
        access,
        codec,
        freshness=freshness,
        clock=clock,
        timeout_s=timeout_s,
        random_fraction=(rng or random.Random()).random,  # noqa: S311 -- jitter, not a secret
        random_generation=_random_generation,
        generations=generations,
        tells=log is not None and config.cache.local_entries > 0,
        forgotten=forgotten,
    )
    invalidation = Invalidation(
        store,
        access,
        longest_s=longest_s,
        random_generation=_random_generation,
        forgotten=forgotten,
        local=local,
        log=log,
        leeway=leeway,
    )
    runs = None
    if board is not None:
        runs = Runs(
            board,
            access,
            timeout_s=timeout_s,
            random=lambda: secrets.token_bytes(RANDOM_BYTES),
            clock=clock,
            ending=ending or asyncio.Event(),
            step_s=leeway.step_s,
        )
    tier = _semantic_tier(config, index, semantic) if index is not None and semantic is not None else None
    metrics = CacheMetrics(meter, is_down=lambda: circuit.is_open)
    layered = LayeredCache(exact, keeper, invalidation, tier, log, access, clock, runs)
    servicer = CacheServicer(layered, clock, metrics, runs)
    name = cache_pb2.DESCRIPTOR.services_by_name["CacheService"].full_name
    following: list[asyncio.Task[None]] = []
    if log is not None and local is not None:
        follower = Follower(log, local, forgotten, index, clock)
        following.append(asyncio.create_task(follower.run()))
        if index is not None:
            embedder = semantic.embedder if semantic is not None else None
            following.append(asyncio.create_task(QuestionReader(log, index, clock, embedder).run()))
        # Nothing is given before it has heard what is forgotten: a moment, unless the log does not answer.
        with suppress(TimeoutError):
            async with asyncio.timeout(_HEARING_S):
                await follower.has_tried.wait()
    try:
        yield Service(name, lambda server: cache_pb2_grpc.add_CacheServiceServicer_to_server(servicer, server))
    finally:
        for task in following:
            task.cancel()
        await asyncio.gather(*following, return_exceptions=True)
        if runs is not None:
            await runs.aclose()
        await access.aclose()


@dataclass(frozen=True, slots=True)
class SemanticParts:
    """What the semantic tier is made of."""

    make_neighbours: Callable[[], Neighbours]
    embedder: Embedder | None


def _random_generation() -> bytes:
    return secrets.token_bytes(GENERATION_BYTES)


def _local_layer(config: TiermeshConfig, clock: Clock) -> LocalAnswers:
    cache = config.cache
    return LocalAnswers(
        max_entries=cache.local_entries,
        max_bytes=cache.local_memory_mb * 1024 * 1024,
        hold_s=_LOCAL_S,
        clock=clock,
    )


def _semantic_tier(config: TiermeshConfig, index: QuestionIndex, parts: SemanticParts) -> SemanticTier:
    cache = config.cache
    return SemanticTier(
        index,
        parts.embedder,
        threshold=cache.semantic_threshold,
        task_types=frozenset(cache.semantic_task_types),
        shadow=cache.semantic_shadow,
    )


@asynccontextmanager
async def open_semantic_parts(
    config: TiermeshConfig, environ: Mapping[str, str]
) -> AsyncIterator[SemanticParts | None]:
    """Loads the model where the semantic tier is on and its packages and model are there.

    What is missing is told and left out: the exact tier needs none of it.
    """
    if not config.cache.semantic_enabled:
        yield None
        return
    try:
        # Heavy, and only needed here: a cache without a semantic tier starts without them.
        from tiermesh.cache.adapters.openvino_embedder import open_openvino_embedder  # noqa: PLC0415 -- as above
        from tiermesh.cache.adapters.usearch import UsearchNeighbours  # noqa: PLC0415 -- as above
    except ImportError as error:
        _log.error("the semantic tier is off: install tiermesh-cache[semantic]", missing=error.name)
        yield None
        return
    # Read now, and not while the first caller waits.
    english()
    chinese()
    thesaurus()
    folder = embedder_folder(environ)
    async with AsyncExitStack() as stack:
        embedder = None
        if not is_fetched(folder):
            _log.error(
                "no embedder: English is matched exactly only; run python -m tiermesh.cache.fetch_embedder",
                of_an_earlier_release=[str(earlier) for earlier in earlier_folders(folder)],
            )
        else:
            try:
                embedder = await stack.enter_async_context(open_openvino_embedder(folder))
            except ModelLoadFailed as error:
                _log.error("no embedder: English is matched exactly only", error=str(error))
        yield SemanticParts(UsearchNeighbours, embedder)


def _log_of(config: TiermeshConfig, store: RedisStore) -> ChangeLog:
    # Also where nothing is kept in memory: what is forgotten must be known to all replicas.
    return RedisLog(store.client, max_questions=config.cache.semantic_entries)


async def run(process: Process) -> None:
    """Serves until the process is told to stop. A Redis that is down makes misses, not failures."""
    with process.open_meter("tiermesh-cache") as meter:
        await _serve(process, meter)


@asynccontextmanager
async def open_board(
    config: TiermeshConfig, environ: Mapping[str, str], store: RedisStore
) -> AsyncIterator[RunBoard | None]:
    """Opens what routers share their runs through, where the configuration has them do so."""
    if config.cache.coalescing != "mesh":
        yield None
        return
    # A store that hangs is noticed by those who wait sooner than by those who do not.
    async with open_redis_store(
        redis_url(config, environ), connections=_WAITING, socket_timeout_s=_WAITING_S
    ) as waiting:
        yield make_board(store, waiting)


def make_board(
    store: RedisStore, waiting: RedisStore, *, alive_ms: int = ALIVE_MS, follows_ms: int = FOLLOWS_MS
) -> RunBoard:
    """Returns the board of the same Redis as the answers.

    Args:
        store: For what a request waits for.
        waiting: For what waits.
        alive_ms: How long a router counts as alive that says nothing.
        follows_ms: How long a follower counts that says nothing.
    """
    if isinstance(store, RedisClusterStore) and isinstance(waiting, RedisClusterStore):
        return RedisClusterRuns(store, waiting, alive_ms=alive_ms, follows_ms=follows_ms)
    return RedisRuns(store.client, waiting.client, alive_ms=alive_ms, follows_ms=follows_ms)


async def _serve(process: Process, meter: Meter | None) -> None:
    config, ending = process.config, asyncio.Event()
    # Whoever has callers wait for Redis for longer wants its answer, too.
    socket_timeout_s = max(SOCKET_TIMEOUT_S, config.cache.store_timeout_ms / 1000)
    async with (
        process.open_tracing("tiermesh-cache") as tracing,
        open_redis_store(redis_url(config, process.environ), socket_timeout_s=socket_timeout_s) as store,
        open_semantic_parts(config, process.environ) as semantic,
        open_board(config, process.environ, store) as board,
        wire(
            config, store, log=_log_of(config, store), semantic=semantic, meter=meter, board=board, ending=ending
        ) as service,
        open_server(
            [service],
            address=process.address,
            tls=process.server_tls(),
            tracing=tracing,
            default_deadline_s=config.deadlines.max_ms / 1000,
            drain_s=config.drain_s,
        ) as server,
    ):
        await server.set_serving(True)
        _log.info("serving", address=process.address)
        draining = asyncio.create_task(_tell(server.draining, ending))
        try:
            await serve_until_signal(server, drain_s=config.drain_s)
        finally:
            draining.cancel()


async def _tell(when: asyncio.Event, then: asyncio.Event) -> None:
    await when.wait()
    then.set()
