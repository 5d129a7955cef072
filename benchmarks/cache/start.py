"""What a replica that starts costs until it knows the questions that were answered before, and its callers meanwhile."""

from __future__ import annotations

import asyncio
import time
from typing import Any

import numpy as np
from cache.latency import PARTITION, SEMANTIC, TENANT, TTL_MS, fill, key, question, random_vector, request
from cache.service import Service, running_service
from harness.eventually import eventually
from harness.redis import real_redis
from tiermesh.api.cache.v1 import cache_pb2
from tiermesh.cache.adapters.openvino_embedder import OpenvinoEmbedder
from tiermesh.cache.adapters.redis_log import QUESTIONS
from tiermesh.cache.adapters.redis_open import open_redis_store
from tiermesh.cache.keys import place_of
from tiermesh.cache.semantic.index import file
from tiermesh.cache.semantic.records import Record, encode, partition_of
from tiermesh.shared.clock import SYSTEM_CLOCK

_MEMORY_MB = 2048
WAYS = {"told by this release": True, "told by another release": False}
"""Only what the same rules have taken apart need not be taken apart again."""


async def measure_start(embedder: OpenvinoEmbedder, *, count: int) -> dict[str, Any]:
    """Prints and returns, for each way: seconds and CPU seconds from the process's start until all are known, and exact hits meanwhile in ms.

    Args:
        embedder: Embeds the last question, by which it is known that all are.
        count: Questions.
    """
    found: dict[str, Any] = {}
    print(f"{'':<26} {'questions':>9} {'s':>7} {'CPU, s':>7} {'exact hits meanwhile: p50, p99 in ms':>38}")
    for way, is_filed in WAYS.items():
        with real_redis(max_memory_mb=_MEMORY_MB) as server:
            async with open_redis_store(server.url) as store:
                await fill(store, 0, 1)
                await fill(store, count - 1, count)
                last = await _tell(store.client, embedder, count, is_filed=is_filed)
            row = found[way] = await until_known(server.url, last)
        print(
            f"{way:<26} {count:>9} {row['s']:>7} {row['cpu_s']:>7} {row['p50_ms']:>29} {row['p99_ms']:>8}", flush=True
        )
    return {"questions": count, **found}


async def _tell(client: Any, embedder: OpenvinoEmbedder, count: int, *, is_filed: bool) -> str:
    generator, known = np.random.default_rng(1), list[bytes]()
    ends_ms, last = round(SYSTEM_CLOCK.wall() * 1000) + TTL_MS, f"How do I open the archive of entry {count - 1}?"
    pipe = client.pipeline(transaction=False)
    for n in range(count):
        text, vector = question(n), random_vector(generator, known)
        if n < 100:
            known.append(vector)
        if n == count - 1:
            text, vector = last, embedder.embed_now(last)
        filed = file(text, vector) if is_filed else None
        entry, partition = place_of(TENANT, key(n)).entry, partition_of(TENANT, PARTITION)
        record = Record(entry, partition, text, vector, 1.0, ends_ms, filed, embedder.name)
        pipe.xadd(QUESTIONS, dict(encode(record)))
        if n % 1000 == 999 or n == count - 1:
            await pipe.execute()
    return last


async def until_known(redis_url: str, last: str) -> dict[str, float]:
    """Starts a replica; returns what it takes until it knows the last question, and exact hits meanwhile."""
    began = time.perf_counter()
    async with running_service(redis_url, **SEMANTIC) as service:
        return await _asked(service, last, began)


async def _asked(service: Service, last: str, began: float) -> dict[str, float]:
    times: list[float] = []
    asked = request(key(-1))
    asked.semantic.CopyFrom(cache_pb2.SemanticQuery(partition=PARTITION, text=last))

    async def known() -> bool:
        sent = time.perf_counter()
        await service.cache.call("Lookup", request(key(0)))
        times.append(time.perf_counter() - sent)
        await asyncio.sleep(0.02)
        return bool((await service.cache.call("Lookup", asked)).result == cache_pb2.CACHE_RESULT_HIT_SEMANTIC)

    await eventually(known, within_s=300)
    took, cpu = time.perf_counter() - began, service.cpu_s()
    p50, p99 = np.quantile(times, (0.5, 0.99)) * 1000
    return {"s": round(took, 1), "cpu_s": round(cpu, 1), "p50_ms": round(float(p50), 2), "p99_ms": round(float(p99), 2)}
