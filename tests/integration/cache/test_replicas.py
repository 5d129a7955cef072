"""Two replicas on one real Redis that loses its memory, and the real embedder where it is installed."""

import os

import pytest
from harness.cache import AMPLE, cache_config, running_cache
from harness.eventually import eventually
from harness.semantic import FakeEmbedder, FakeNeighbours, answered, ask, name
from tiermesh.api.cache.v1 import cache_pb2
from tiermesh.cache.adapters.redis import CHANGES
from tiermesh.cache.adapters.redis_log import QUESTIONS, RedisLog
from tiermesh.cache.adapters.redis_open import open_redis_store
from tiermesh.cache.app import SemanticParts, open_semantic_parts
from tiermesh.cache.embedder_files import embedder_folder, is_fetched

ON = {"semantic_enabled": True, "store_timeout_ms": 60_000, "semantic_threshold": 0.5}
STORED, ASKED = "How do I renew my library card?", "How can I renew my library card?"


@pytest.fixture
async def replicas(redis_server):
    async with redis_server.patient_store() as one, redis_server.patient_store() as two:
        logs = [RedisLog(store.client, max_questions=100) for store in (one, two)]
        parts = [SemanticParts(FakeNeighbours, FakeEmbedder()) for _ in logs]
        async with (
            running_cache(one, log=logs[0], semantic=parts[0], leeway=AMPLE, **ON) as first,
            running_cache(two, log=logs[1], semantic=parts[1], leeway=AMPLE, **ON) as second,
        ):
            yield first, second


async def until(cache, result, asked=ASKED):
    async def arrived():
        return name(await ask(cache, asked)) == result

    await eventually(arrived)


async def test_any_replica_answers_alike(replicas):
    first, second = replicas
    await answered(first, STORED)
    await until(second, "HIT_SEMANTIC")
    await until(first, "HIT_SEMANTIC")
    await answered(second, "怎么取消订单")
    await until(first, "HIT_SEMANTIC", "请问如何取消订单？")
    await second.invalidate()
    await until(first, "MISS")


async def test_a_new_replica_learns_what_was_answered_before_it_came(replicas, redis_server):
    first, _ = replicas
    await answered(first, STORED)
    async with open_redis_store(redis_server.url) as store:
        log = RedisLog(store.client, max_questions=100)
        parts = SemanticParts(FakeNeighbours, FakeEmbedder())
        async with running_cache(store, log=log, semantic=parts, leeway=AMPLE, **ON) as third:
            await until(third, "HIT_SEMANTIC")


async def test_a_redis_that_lost_its_memory_is_followed_anew(replicas, redis_server):
    first, second = replicas
    await answered(first, STORED)
    await until(second, "HIT_SEMANTIC")
    with redis_server.client() as client:
        client.flushall()
    await until(second, "MISS")
    await answered(first, STORED)
    await until(second, "HIT_SEMANTIC")
    await until(first, "HIT_SEMANTIC")


async def test_exact_answers_in_memory_are_dropped_when_another_replica_forgets(replicas):
    first, second = replicas
    await answered(first, STORED)
    await until(second, "HIT_EXACT", STORED)
    await first.invalidate()
    await until(second, "MISS", STORED)


@pytest.mark.parametrize("fault", ["frozen", "killed"])
async def test_a_redis_that_does_not_answer_is_a_kind_of_miss_and_is_followed_again(redis_server, fault):
    async with open_redis_store(redis_server.url) as store:
        log = RedisLog(store.client, max_questions=100)
        parts = SemanticParts(FakeNeighbours, FakeEmbedder())
        settings = {**ON, "store_timeout_ms": 100}
        async with running_cache(store, log=log, semantic=parts, **settings) as cache:

            async def known():
                await answered(cache, STORED)
                return name(await ask(cache, ASKED)) == "HIT_SEMANTIC"

            await eventually(known)
            redis_server.freeze() if fault == "frozen" else redis_server.kill()
            await until(cache, "STORE_UNAVAILABLE")
            for _ in range(20):
                assert name(await ask(cache, ASKED)) in {"MISS", "STORE_UNAVAILABLE"}
                assert not await answered(cache, STORED)
            redis_server.thaw() if fault == "frozen" else redis_server.start()
            await eventually(known)


async def test_tags_are_invalidated_for_all_replicas_at_once(replicas):
    first, second = replicas
    assert await first.store("q", tags=["shop"])
    assert await second.result("q") == "HIT_EXACT"
    await first.call("Invalidate", cache_pb2.InvalidateRequest(tenant="local", tags=["shop"]))

    async def gone():
        return await second.result("q") == "MISS"

    await eventually(gone)


async def test_what_a_later_release_says_is_left_out_and_what_follows_is_heard(replicas, redis_server):
    first, second = replicas
    with redis_server.client() as client:
        client.xadd(QUESTIONS, {b"v": b"2", b"words": b"of tomorrow"})
        client.xadd(CHANGES, {b"kind": b"of tomorrow"})
    await answered(first, STORED)
    await until(second, "HIT_SEMANTIC")


async def test_redis_holds_no_names_in_keys_and_caps_its_streams(replicas, redis_server):
    first, _ = replicas
    await answered(first, STORED, tenant="acme")
    with redis_server.client() as client:
        keys = b" ".join(client.keys("*"))
    assert b"acme" not in keys
    assert b"library" not in keys


@pytest.mark.skipif(not is_fetched(embedder_folder(os.environ)), reason="run python -m tiermesh.cache.fetch_embedder")
async def test_the_real_model_and_the_real_neighbour_search(redis_server):
    config = cache_config(**ON)
    async with redis_server.patient_store() as store, open_semantic_parts(config, os.environ) as parts:
        assert parts is not None
        assert parts.embedder is not None
        assert not await parts.embedder.embed("我的订单什么时候发货ઊ")
        log = RedisLog(store.client, max_questions=1000)
        async with running_cache(
            store, log=log, semantic=parts, leeway=AMPLE, **{**ON, "semantic_threshold": 0.8}
        ) as cache:
            for n in range(300):
                await answered(cache, f"Where is the key of room {n + 2}?")
            await answered(cache, STORED)
            await until(cache, "HIT_SEMANTIC")
            await until(cache, "HIT_SEMANTIC", "What are the steps to renew my library card?")
            await until(cache, "HIT_SEMANTIC", "Please tell me where the key of room 250 is")
            missed = await ask(cache, "Where is the key of room 1250?")
            assert name(missed) == "MISS"
            assert missed.similarity > 0.8
            assert missed.refused_by == "numbers"


async def test_without_a_model_english_stays_exact(tmp_path, redis_server):
    config = cache_config(**ON)
    async with (
        redis_server.patient_store() as store,
        open_semantic_parts(config, {"XDG_CACHE_HOME": str(tmp_path)}) as parts,
    ):
        assert parts is not None
        assert parts.embedder is None
        async with running_cache(
            store, log=RedisLog(store.client, max_questions=9), semantic=parts, leeway=AMPLE, **ON
        ) as cache:
            await answered(cache, STORED)
            await answered(cache, "怎么取消订单")
            await until(cache, "HIT_SEMANTIC", "请问如何取消订单？")
            assert name(await ask(cache, ASKED)) == "MISS"
