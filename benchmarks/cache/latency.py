"""What lookups cost in the service: everything behind the server, on a real Redis, one core."""

from __future__ import annotations

import asyncio
import gc
import hashlib
import random
import secrets
import statistics
import time
from collections.abc import Awaitable, Callable
from itertools import count

from harness.answers import make_answer
from tiermesh.api.cache.v1 import cache_pb2
from tiermesh.cache.access import StoreAccess
from tiermesh.cache.adapters.redis import RedisStore
from tiermesh.cache.answers import AnswerCache, Result
from tiermesh.cache.circuit import Circuit
from tiermesh.cache.codec import Codec, tags_of
from tiermesh.cache.freshness import Freshness
from tiermesh.cache.invalidation import Invalidation
from tiermesh.cache.keys import generation_key, place_of
from tiermesh.cache.layered import LayeredCache
from tiermesh.cache.local import LocalAnswers
from tiermesh.cache.semantic.index import QuestionIndex
from tiermesh.cache.semantic.records import Record, partition_of
from tiermesh.cache.semantic.tier import SemanticTier
from tiermesh.cache.tags import effective
from tiermesh.shared.budget import Budget
from tiermesh.shared.clock import SYSTEM_CLOCK

TENANT = "bench"
PARTITION = b"l" * 32
WORKING_SET = 500
"""Entries that are asked for again and again, as a warm cache is."""
GENERATION = b"generate"
TTL_MS = 3_600_000


def layered(store: RedisStore, tier: SemanticTier | None) -> LayeredCache:
    """Returns the cache that the server serves, with a local layer that is current."""
    access = StoreAccess(Circuit(SYSTEM_CLOCK))
    local = LocalAnswers(max_entries=10_000, max_bytes=64 << 20, hold_s=60, clock=SYSTEM_CLOCK)
    local.is_current = lambda: True
    exact = AnswerCache(
        store,
        access,
        Codec(1 << 18),
        freshness=Freshness(3600),
        clock=SYSTEM_CLOCK,
        timeout_s=1,
        random_fraction=random.random,
        random_generation=lambda: secrets.token_bytes(8),
        local=local,
    )
    invalidation = Invalidation(
        store, access, longest_s=600, random_generation=lambda: secrets.token_bytes(8), local=local
    )
    return LayeredCache(exact, invalidation, tier, None, access, SYSTEM_CLOCK)


async def fill(store: RedisStore, first: int, last: int) -> None:
    """Writes answers straight into Redis."""
    codec = Codec(1 << 18)
    await store.replace(generation_key(TENANT), GENERATION)
    answer = make_answer(*(f"token {k} " for k in range(100)))
    answer.fresh_until_time.FromMilliseconds(round(SYSTEM_CLOCK.wall() * 1000) + TTL_MS)
    serialized, generation = answer.SerializeToString(), effective(GENERATION, tags_of(answer))
    for begin in range(first, last, 500):
        writes = []
        for n in range(begin, min(last, begin + 500)):
            place = place_of(TENANT, key(n))
            writes.append(
                store.write(place.entry, codec.encode(serialized, key=place.entry, generation=generation), TTL_MS)
            )
        await asyncio.gather(*writes)


def key(n: int) -> bytes:
    """Returns the fingerprint of entry `n`."""
    return hashlib.sha256(f"entry {n}".encode()).digest()


async def exact(store: RedisStore, entries: int, *, calls: int) -> dict[str, float]:
    """Measures warm exact hits."""
    cache = layered(store, None)
    asked = [random.randrange(entries) for _ in range(WORKING_SET)]
    for n in asked:
        await cache.lookup(request(key(n)), Budget.of(5))

    async def one(n: int) -> None:
        looked = await cache.lookup(request(key(asked[n % len(asked)])), Budget.of(5))
        assert looked.found.result is Result.HIT

    return await timed(one, calls)


async def exact_cold(store: RedisStore, entries: int, *, calls: int) -> dict[str, float]:
    """Measures exact hits that this replica has to get from Redis."""
    cache = layered(store, None)

    async def one(_: int) -> None:
        cache.exact._local.drop_prefix(b"")  # type: ignore[union-attr]
        looked = await cache.lookup(request(key(random.randrange(entries))), Budget.of(5))
        assert looked.found.result is Result.HIT

    return await timed(one, calls)


async def semantic(
    store: RedisStore, tier: SemanticTier, questions: list[str], vectors: list[bytes], *, calls: int
) -> dict[str, float]:
    """Measures lookups of new wordings among `questions`, embedding and guards included."""
    cache = layered(store, tier)
    numbers = count()
    order = random.sample(range(len(vectors)), min(calls, len(vectors)))

    async def one(n: int) -> None:
        # Every text is a new one, which no memory of the embedder holds.
        text = f"Could you tell me how to {questions[order[n % len(order)]][9:-1]}, number {next(numbers)}?"
        asked = request(hashlib.sha256(text.encode()).digest())
        asked.semantic.CopyFrom(cache_pb2.SemanticQuery(partition=PARTITION, text=text))
        await cache.lookup(asked, Budget.of(5))

    return await timed(one, calls)


def remember(index: QuestionIndex, questions: list[str], vectors: list[bytes], first: int) -> None:
    """Fills an index with one partition."""
    ends_ms = round(SYSTEM_CLOCK.wall() * 1000) + TTL_MS
    for n in range(first, len(questions)):
        index.add(
            Record(
                place_of(TENANT, key(n)).entry, partition_of(TENANT, PARTITION), questions[n], vectors[n], 1.0, ends_ms
            )
        )


def request(fingerprint: bytes) -> cache_pb2.LookupRequest:
    """Returns a lookup."""
    return cache_pb2.LookupRequest(key=cache_pb2.CacheKey(tenant=TENANT, fingerprint=fingerprint))


async def timed(one: Callable[[int], Awaitable[None]], calls: int) -> dict[str, float]:
    """Returns p50 and p99 in ms and calls per second, one after another."""
    for n in range(min(100, calls)):
        await one(n)
    times = []
    gc.collect()
    began = time.perf_counter()
    for n in range(calls):
        start = time.perf_counter()
        await one(n)
        times.append(time.perf_counter() - start)
    took = time.perf_counter() - began
    cuts = statistics.quantiles(times, n=100)
    return {"p50_ms": round(cuts[49] * 1000, 4), "p99_ms": round(cuts[98] * 1000, 4), "rps": round(calls / took)}
