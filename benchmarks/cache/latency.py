"""What lookups cost: in the service's own process, asked over gRPC on loopback, on a real Redis."""

from __future__ import annotations

import hashlib
import random
import statistics
import time
from itertools import count
from typing import Any

import numpy as np
from cache.progress import Progress
from cache.service import Row, Service, measure, running_service
from harness.answers import make_answer
from harness.eventually import eventually
from harness.redis import real_redis
from tiermesh.api.cache.v1 import cache_pb2
from tiermesh.cache.adapters.openvino_embedder import OpenvinoEmbedder
from tiermesh.cache.adapters.redis import RedisStore
from tiermesh.cache.adapters.redis_log import QUESTIONS
from tiermesh.cache.adapters.redis_open import open_redis_store
from tiermesh.cache.codec import Codec, tags_of
from tiermesh.cache.keys import generation_key, place_of
from tiermesh.cache.semantic.records import Record, encode, partition_of
from tiermesh.cache.tags import effective
from tiermesh.shared.clock import SYSTEM_CLOCK

TENANT = "bench"
PARTITION = b"l" * 32
WORKING_SET = 500
"""Entries that are asked for again and again, as a warm cache is."""
IN_FLIGHT = 32
GENERATION = b"generate"
TTL_MS = 3_600_000
HIT, MISS = cache_pb2.CACHE_RESULT_HIT_EXACT, cache_pb2.CACHE_RESULT_MISS
SEMANTIC = {
    "semantic_enabled": True,
    "semantic_entries": 1_000_000,
    # What is measured is how long a lookup takes: none is cut short.
    "store_timeout_ms": 1000,
}
VERBS = ("renew", "cancel", "install", "repair", "share", "print", "pack", "paint", "sell", "insure")
NOUNS = ("passport", "printer", "bicycle", "account", "garden", "window", "contract", "router", "sofa", "ticket")
WORDS = ("what", "time", "does", "the", "last", "train", "leave", "on", "a", "cold", "night", "in", "winter")


async def measure_latency(
    embedder: OpenvinoEmbedder | None, *, sizes: list[int], calls: int
) -> tuple[dict[str, Any], dict[str, Any]]:
    """Prints latency by number of entries; returns figures of the service, and all rows.

    Args:
        embedder: Embeds what marks the end of the index; None where there is no model, and then no semantic lookups.
        sizes: Numbers of entries.
        calls: Semantic lookups a size; exact ones are five times that.
    """
    random.seed(1)
    figures: dict[str, Any] = {"exact": {}, "semantic": {}}
    detail: dict[str, Any] = {}
    print(
        f"{'':<24} {'entries':>8} {'in the service, ms':>22} {'at the caller, ms':>22} {'per second':>11} {'CPU, us':>8}"
    )
    print(f"{'':<24} {'':>8} {'p50':>11} {'p99':>10} {'p50':>11} {'p99':>10}")
    with real_redis(max_memory_mb=1024) as server:
        warm_config = SEMANTIC if embedder is not None else {"store_timeout_ms": 1000}
        async with (
            open_redis_store(server.url) as store,
            running_service(server.url, **warm_config) as warm,
            running_service(server.url, local_entries=0, store_timeout_ms=1000) as bare,
        ):
            questions, generator = _Questions(), np.random.default_rng(1)
            done = 0
            for size in sorted(sizes):
                await fill(store, done, size)
                if embedder is not None:
                    await questions.grow(store, generator, embedder, done, size)
                    await questions.until_heard(warm)
                done = size
                for name, rows in (await _exact(warm, bare, size, calls=calls * 5)).items():
                    _say(name, size, rows, detail)
                if embedder is not None:
                    _say("semantic", size, await questions.ask(warm, size, calls=calls), detail)
                    figures["semantic"][str(size)] = detail["semantic"][str(size)]["in_service"]
                figures["exact"][str(size)] = detail["exact hit"][str(size)]["in_service"]
            for name, rows in (await _many(warm, bare, done, calls=calls * 5)).items():
                _say(name, done, rows, detail)
    if embedder is not None:
        detail["embedding_64_tokens"] = cost = embedding_cost(embedder)
        print(f"{'embedding, 64 tokens':<24} {'':>8} {cost['cpu_p50_ms']:>11} {cost['cpu_p99_ms']:>10}   (CPU time)")
    return figures, detail


def _say(name: str, size: int, rows: dict[str, Row], detail: dict[str, Any]) -> None:
    detail.setdefault(name, {})[str(size)] = rows
    inside, outside = rows["in_service"], rows["at_caller"]
    print(
        f"{name:<24} {size:>8} {inside['p50_ms']:>11} {inside['p99_ms']:>10} {outside['p50_ms']:>11}"
        f" {outside['p99_ms']:>10} {outside['rps']:>11} {outside['service_cpu_us']:>8}",
        flush=True,
    )


async def _exact(warm: Service, bare: Service, size: int, *, calls: int) -> dict[str, dict[str, Row]]:
    asked = [random.randrange(size) for _ in range(WORKING_SET)]

    def again(n: int) -> cache_pb2.LookupRequest:
        return request(key(asked[n % WORKING_SET]))

    def any_of_them(_: int) -> cache_pb2.LookupRequest:
        return request(key(random.randrange(size)))

    for service in (warm, bare):
        await measure(service, again, calls=WORKING_SET * 2, expected=HIT)
    return {
        "exact hit": await measure(warm, again, calls=calls, expected=HIT),
        "exact hit, from Redis": await measure(bare, any_of_them, calls=calls, expected=HIT),
        "exact miss": await measure(bare, _absent, calls=calls, expected=MISS),
    }


async def _many(warm: Service, bare: Service, size: int, *, calls: int) -> dict[str, dict[str, Row]]:
    def again(n: int) -> cache_pb2.LookupRequest:
        return request(key(n % min(size, WORKING_SET)))

    for service in (warm, bare):
        # Connections to Redis are made as they are needed.
        await measure(service, again, calls=1000, in_flight=IN_FLIGHT)
    return {
        f"hit, {IN_FLIGHT} at once": await measure(warm, again, calls=calls, in_flight=IN_FLIGHT, expected=HIT),
        f"miss, {IN_FLIGHT} at once": await measure(bare, _absent, calls=calls, in_flight=IN_FLIGHT, expected=MISS),
    }


async def fill(store: RedisStore, first: int, last: int) -> None:
    """Writes answers straight into Redis."""
    codec, answer = Codec(1 << 18), make_answer(*(f"token {k} " for k in range(100)))
    answer.fresh_until_time.FromMilliseconds(round(SYSTEM_CLOCK.wall() * 1000) + TTL_MS)
    serialized, generation = answer.SerializeToString(), effective(GENERATION, tags_of(answer))
    await store.replace(generation_key(TENANT), GENERATION)
    progress = Progress("answers written", last - first)
    for begin in range(first, last, 1000):
        pipe = store.client.pipeline(transaction=False)
        for n in range(begin, min(last, begin + 1000)):
            entry = place_of(TENANT, key(n)).entry
            pipe.set(entry, codec.encode(serialized, key=entry, generation=generation), px=TTL_MS)
        await pipe.execute()
        progress.step(min(last, begin + 1000) - begin)


class _Questions:
    """Questions in one partition, told to the service the way replicas tell each other."""

    def __init__(self) -> None:
        self._vectors: list[bytes] = []
        self._last = ""
        self._numbers = count()

    async def grow(
        self, store: RedisStore, generator: np.random.Generator, embedder: OpenvinoEmbedder, first: int, last: int
    ) -> None:
        """Tells of questions `first` to `last`; the last one has a real embedding, so that it can be found."""
        ends_ms = round(SYSTEM_CLOCK.wall() * 1000) + TTL_MS
        self._last = f"How do I open the archive of entry {last - 1}?"
        for begin in range(first, last, 1000):
            pipe = store.client.pipeline(transaction=False)
            for n in range(begin, min(last, begin + 1000)):
                text, vector = question(n), random_vector(generator, self._vectors)
                self._vectors.append(vector)
                if n == last - 1:
                    text, vector = self._last, embedder.embed_now(self._last)
                entry = place_of(TENANT, key(n)).entry
                partition = partition_of(TENANT, PARTITION)
                record = Record(entry, partition, text, vector, 1.0, ends_ms, embedder=embedder.name)
                pipe.xadd(QUESTIONS, dict(encode(record)))
            await pipe.execute()

    async def until_heard(self, service: Service) -> None:
        """Waits until the service's index has the last question."""

        async def heard() -> bool:
            found = await service.cache.call("Lookup", self._request(self._last))
            return bool(found.result == cache_pb2.CACHE_RESULT_HIT_SEMANTIC)

        await eventually(heard, within_s=300)

    async def ask(self, service: Service, size: int, *, calls: int) -> dict[str, Row]:
        """Measures lookups of new wordings, embedding, search and guards included."""

        def other_wording(_: int) -> cache_pb2.LookupRequest:
            # Every text is a new one, which no memory of the embedder holds.
            return self._request(
                f"Could you tell me how to {question(random.randrange(size))[9:-1]}, number {next(self._numbers)}?"
            )

        await measure(service, other_wording, calls=100)
        return await measure(service, other_wording, calls=calls)

    def _request(self, text: str) -> cache_pb2.LookupRequest:
        asked = request(hashlib.sha256(text.encode()).digest())
        asked.semantic.CopyFrom(cache_pb2.SemanticQuery(partition=PARTITION, text=text))
        return asked


def question(n: int) -> str:
    """Returns the text of question `n`."""
    return f"How do I {VERBS[n % 10]} my {NOUNS[n // 10 % 10]} in case {n}?"


def key(n: int) -> bytes:
    """Returns the fingerprint of entry `n`."""
    return hashlib.sha256(f"entry {n}".encode()).digest()


def request(fingerprint: bytes) -> cache_pb2.LookupRequest:
    """Returns a lookup."""
    return cache_pb2.LookupRequest(key=cache_pb2.CacheKey(tenant=TENANT, fingerprint=fingerprint))


def _absent(n: int) -> cache_pb2.LookupRequest:
    return request(hashlib.sha256(f"absent {n}".encode()).digest())


def random_vector(generator: np.random.Generator, known: list[bytes]) -> bytes:
    """Returns a vector of a cloud around one of a hundred centres, as questions on one matter are."""
    centre = np.frombuffer(known[len(known) % 100], dtype=np.float16).astype(np.float32) if len(known) >= 100 else 0
    vector = generator.standard_normal(384).astype(np.float32) / 20 + centre
    return (vector / np.linalg.norm(vector)).astype(np.float16).tobytes()


def embedding_cost(embedder: OpenvinoEmbedder, *, calls: int = 200) -> dict[str, float]:
    """Returns the CPU time of embedding 64 tokens, in ms: what other processes do on the machine counts little."""
    # Each is one token, and two more mark beginning and end.
    texts = [" ".join(random.choices(WORDS, k=62)) for _ in range(50)]
    times = []
    for n in range(calls):
        began = time.thread_time()
        embedder.embed_now(texts[n % 50])
        times.append((time.thread_time() - began) * 1000)
    cuts = statistics.quantiles(times, n=100)
    return {"cpu_p50_ms": round(cuts[49], 2), "cpu_p99_ms": round(cuts[98], 2)}
