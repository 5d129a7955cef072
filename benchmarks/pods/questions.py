"""A Redis full of answered questions, which a cache with the semantic tier remembers when it starts."""

from __future__ import annotations

import grpc
import numpy as np
from cache.latency import PARTITION, TENANT, TTL_MS, fill, key, question, random_vector
from cache.progress import Progress
from harness.eventually import eventually
from tiermesh.api.cache.v1 import cache_pb2, cache_pb2_grpc
from tiermesh.cache.adapters.redis import RedisStore
from tiermesh.cache.adapters.redis_log import QUESTIONS
from tiermesh.cache.adapters.redis_open import open_redis_store
from tiermesh.cache.keys import place_of
from tiermesh.cache.semantic.index import file
from tiermesh.cache.semantic.records import Filed, Record, encode, partition_of
from tiermesh.shared.clock import SYSTEM_CLOCK

LAST = "怎样打开最后一份档案？"
"""The last question. Chinese ones are compared by their text alone, so it is found without the embedder."""


async def remember(url: str, count: int) -> float:
    """Writes `count` answers and their questions into Redis; returns the MiB that it uses then."""
    generator, known = np.random.default_rng(1), list[bytes]()
    async with open_redis_store(url, socket_timeout_s=30) as store:
        await fill(store, 0, count)
        ends_ms = round(SYSTEM_CLOCK.wall() * 1000) + TTL_MS
        progress = Progress("questions told", count)
        for begin in range(0, count, 1000):
            pipe = store.client.pipeline(transaction=False)
            for n in range(begin, min(count, begin + 1000)):
                vector = random_vector(generator, known)
                known = [*known, vector][:100]
                text, vector = (LAST, b"") if n == count - 1 else (question(n), vector)
                entry, partition = place_of(TENANT, key(n)).entry, partition_of(TENANT, PARTITION)
                # As told by the replica that stored the answer. What a question is filed under is about as long as it is;
                # to take it apart, a millisecond each, would change nothing that is measured here.
                filed = Filed("en", text, vector) if vector else file(text, vector)
                record = Record(entry, partition, text, vector, 1.0, ends_ms, filed)
                pipe.xadd(QUESTIONS, dict(encode(record)))
            await pipe.execute()
            progress.step(min(count, begin + 1000) - begin)
        return await used_mib(store)


async def used_mib(store: RedisStore) -> float:
    """Returns what Redis says that it uses."""
    return float((await store.client.info("memory"))["used_memory"]) / 1024 / 1024


async def until_remembered(stub: cache_pb2_grpc.CacheServiceStub) -> None:
    """Waits until a cache gives the answer of the last question."""
    request = cache_pb2.LookupRequest(
        key=cache_pb2.CacheKey(tenant=TENANT, fingerprint=b"f" * 32),
        semantic=cache_pb2.SemanticQuery(partition=PARTITION, text=LAST),
    )

    async def found() -> bool:
        try:
            answer = await stub.Lookup(request, timeout=10)
        except grpc.aio.AioRpcError:
            # It is starting.
            return False
        return bool(answer.result == cache_pb2.CACHE_RESULT_HIT_SEMANTIC)

    await eventually(found, within_s=300)
