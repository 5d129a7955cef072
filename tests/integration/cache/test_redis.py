"""The cache on a real Redis that is killed, frozen, filled and tampered with."""

import asyncio
import random
import statistics
import time

import pytest
from google.protobuf.duration_pb2 import Duration
from harness.answers import fingerprint, make_answer
from harness.cache import AMPLE, running_cache
from harness.eventually import eventually
from harness.redis import PATIENT_MS
from harness.slow_proxy import slow_proxy
from tiermesh.api.cache.v1 import cache_pb2
from tiermesh.cache.adapters.redis_open import open_redis_store
from tiermesh.cache.keys import generation_key, place_of, tenant_prefix
from tiermesh.cache.tokens import TOMBSTONE_BYTES
from tiermesh.shared.config import ConfigError

SLACK_S = 0.25
"""What a busy machine may add to most waits of `QUICK_MS`; unbounded, each would take the second of a socket's timeout."""
QUICK_MS = 50
"""Ten times what meshes have: on a busy machine Redis itself may take the whole of that."""


@pytest.fixture
async def cache(redis_server):
    """A cache that waits long enough for a busy machine."""
    async with (
        redis_server.patient_store() as store,
        running_cache(store, store_timeout_ms=PATIENT_MS, leeway=AMPLE) as cache,
    ):
        yield cache


@pytest.fixture
async def quick(redis_server):
    """A cache with a bound as meshes have it."""
    async with open_redis_store(redis_server.url) as store, running_cache(store, store_timeout_ms=QUICK_MS) as cache:
        # The first lookup pays for the connections to the server and to Redis.
        await until(cache, "MISS", text="warm-up")
        yield cache


async def until(cache, result, text="question"):
    """Looks up until a result comes: after a failure the store is only tried again after a pause."""

    async def arrived():
        return await cache.result(text) == result

    await eventually(arrived)


async def unavailable_in_time(cache):
    """Looks up and expects a kind of miss, in time but for what the machine itself stalls."""
    took = []
    for _ in range(21):
        began = time.monotonic()
        assert await cache.result() == "STORE_UNAVAILABLE"
        took.append(time.monotonic() - began)
    assert statistics.median(took) < SLACK_S


async def stored(cache, *args, **fields):
    """Stores until it is stored, for the same reason."""
    await eventually(lambda: cache.store(*args, **fields))


async def test_a_hit_is_what_was_stored_bit_for_bit(cache):
    answer = make_answer("Hel", "lo", " 世界 🌏", "\x00")
    await stored(cache, answer=answer)
    await until(cache, "HIT_EXACT")
    found = await cache.lookup()
    assert found.answer.SerializeToString(deterministic=True) == answer.SerializeToString(deterministic=True)


async def test_tenants_are_isolated(cache):
    await stored(cache, "q", make_answer("for a"), tenant="a")
    await stored(cache, "q", make_answer("for b"), tenant="b")
    assert (await cache.lookup("q", "a")).answer.deltas[0].text == "for a"
    assert (await cache.lookup("q", "b")).answer.deltas[0].text == "for b"
    assert await cache.result("q", "c") == "MISS"


async def test_redis_holds_no_names_and_forgets_by_itself(cache, redis_server):
    await stored(cache, "question", tenant="acme")
    with redis_server.client() as client:
        place = place_of("acme", fingerprint("question"))
        keys = client.keys("*")
        assert set(keys) == {place.entry, place.generation}
        assert 3600 * 0.9 * 1000 - 10_000 <= client.pttl(place.entry) <= 3600 * 1.1 * 1000
        assert client.pttl(place.generation) == -1
        assert b"acme" not in b"".join(keys)


@pytest.mark.parametrize("all_of_it", [True, False])
async def test_an_answer_begun_before_an_invalidation_does_not_come_back(cache, redis_server, all_of_it):
    begun = (await cache.lookup()).store_token
    await cache.invalidate(fingerprint=b"" if all_of_it else fingerprint("question"))
    assert not await cache.store(token=begun)
    assert await cache.result() == "MISS"
    if not all_of_it:
        with redis_server.client() as client:
            entry = place_of("local", fingerprint("question")).entry
            assert client.strlen(entry) == TOMBSTONE_BYTES
            assert client.pttl(entry) > 600_000
    assert await cache.store(token=(await cache.lookup()).store_token)
    assert await cache.result() == "HIT_EXACT"


async def test_times_to_live_are_spread(cache, redis_server):
    for n in range(20):
        await stored(cache, str(n), ttl=Duration(seconds=1000))
    with redis_server.client() as client:
        lives = [client.pttl(place_of("local", fingerprint(str(n))).entry) for n in range(20)]
    assert all(890_000 <= life <= 1_100_000 for life in lives)
    assert max(lives) - min(lives) > 20_000


async def test_an_answer_expires(cache):
    await stored(cache, ttl=Duration(nanos=200_000_000))
    await until(cache, "MISS")


async def test_killed_redis_is_a_miss_in_time_and_comes_back(quick, redis_server):
    await stored(quick)
    redis_server.kill()
    await unavailable_in_time(quick)
    assert not await quick.store()
    redis_server.start()
    await until(quick, "MISS")
    await stored(quick)
    await until(quick, "HIT_EXACT")


async def test_frozen_redis_is_a_miss_in_time_and_comes_back(quick, redis_server):
    await stored(quick)
    await until(quick, "HIT_EXACT")
    redis_server.freeze()
    await unavailable_in_time(quick)
    assert set(await asyncio.gather(*(quick.result(str(n)) for n in range(50)))) == {"STORE_UNAVAILABLE"}
    redis_server.thaw()
    await until(quick, "HIT_EXACT")
    found = await quick.lookup()
    assert found.answer == make_answer("question")


async def test_full_redis_still_finds_and_says_not_stored(cache, redis_server):
    await stored(cache)
    with redis_server.client() as client:
        client.config_set("maxmemory-policy", "noeviction")
        client.config_set("maxmemory", 1)
    assert not await cache.store("another")
    await until(cache, "HIT_EXACT")
    await until(cache, "MISS", text="another")
    with redis_server.client() as client:
        client.config_set("maxmemory", "16mb")
    await stored(cache, "another")


async def test_filling_redis_evicts_and_never_fails(redis_server):
    with redis_server.client() as client:
        client.config_set("maxmemory", client.info("memory")["used_memory"] + 1_000_000)
    noise = random.Random(1)
    async with (
        redis_server.patient_store() as store,
        running_cache(store, store_timeout_ms=PATIENT_MS, leeway=AMPLE) as cache,
    ):
        kept = 0
        for n in range(60):
            text = "".join(chr(noise.randrange(0x4E00, 0x9FFF)) for _ in range(20_000))
            # Now and then the tenant's generation is what goes, just as an answer is to be written under it.
            kept += await cache.store(str(n), make_answer(text))
        assert kept > 20
        results = [await cache.result(str(n)) for n in range(60)]
        assert set(results) <= {"HIT_EXACT", "MISS"}
        assert results[0] == "MISS"
    with redis_server.client() as client:
        assert client.info("stats")["evicted_keys"] > 0


@pytest.mark.parametrize("damage", [b"", b"rubbish", b"\x40" + bytes(60), b"\x01" + bytes(60)])
async def test_poisoned_values_are_misses_and_deleted(cache, redis_server, damage):
    await stored(cache)
    await until(cache, "HIT_EXACT")
    entry = place_of("local", fingerprint("question")).entry
    with redis_server.client() as client:
        client.set(entry, damage)
        assert await cache.result() == "MISS"
        assert not client.exists(entry)
    await stored(cache)
    await until(cache, "HIT_EXACT")


async def test_a_key_of_another_type_is_a_miss_and_is_replaced(cache, redis_server):
    await stored(cache)
    entry = place_of("local", fingerprint("question")).entry
    with redis_server.client() as client:
        client.delete(entry)
        client.lpush(entry, "x")
    await until(cache, "MISS")
    await stored(cache)
    await until(cache, "HIT_EXACT")


async def test_a_key_of_another_type_is_replaced_by_an_answer_with_a_token(cache, redis_server):
    begun = (await cache.lookup()).store_token
    with redis_server.client() as client:
        client.rpush(place_of("local", fingerprint("question")).entry, "x")
    assert await cache.store(token=begun)
    assert await cache.result() == "HIT_EXACT"


@pytest.mark.parametrize("kind", ["list", "rubbish"])
async def test_a_damaged_generation_costs_a_tenants_answers_and_is_replaced(cache, redis_server, kind):
    await stored(cache)
    key = generation_key("local")
    with redis_server.client() as client:
        client.delete(key)
        client.rpush(key, "x") if kind == "list" else client.set(key, b"rubbish")
    assert await cache.result() == "MISS"
    await stored(cache, "other")
    assert await cache.store(token=(await cache.lookup()).store_token)
    assert [await cache.result(text) for text in ("question", "other")] == ["HIT_EXACT"] * 2


async def test_a_value_of_a_later_release_is_a_miss_and_is_left_alone(cache, redis_server):
    await stored(cache)
    entry = place_of("local", fingerprint("question")).entry
    with redis_server.client() as client:
        later = b"\x02" + client.get(entry)[1:]
        client.set(entry, later)
        assert await cache.result() == "MISS"
        assert client.get(entry) == later


async def test_slow_redis_is_a_miss_in_time_and_is_used_again_once_it_is_quick(redis_server):
    async with (
        slow_proxy(redis_server.port) as proxy,
        open_redis_store(f"redis://127.0.0.1:{proxy.port}/0") as store,
        running_cache(store, store_timeout_ms=QUICK_MS) as cache,
    ):
        await until(cache, "MISS", text="warm-up")
        await stored(cache)
        proxy.delay_s = 0.3
        # The first reply on the way may still be a quick one.
        await until(cache, "STORE_UNAVAILABLE")
        await unavailable_in_time(cache)
        proxy.delay_s = 0.0
        await until(cache, "HIT_EXACT")


async def test_a_redis_that_becomes_a_replica_still_finds_and_keeps_nothing_and_comes_back(cache, redis_server):
    await stored(cache)
    with redis_server.client() as client:
        # Its new master is never there: as during a failover, what it knows it still says, and it takes no writes.
        client.replicaof("127.0.0.1", 1)
        assert await cache.result() == "HIT_EXACT"
        assert not await cache.store("other")
        assert not await cache.store("other", token=(await cache.lookup("other")).store_token)
        assert await cache.result("other") == "MISS"
        client.replicaof("NO", "ONE")
    await stored(cache, "other")
    assert await cache.result("other") == "HIT_EXACT"


async def test_an_answer_copied_to_another_tenant_is_not_given(cache, redis_server):
    await stored(cache, "q", tenant="a")
    await stored(cache, "other", tenant="b")
    a, b = place_of("a", fingerprint("q")), place_of("b", fingerprint("q"))
    with redis_server.client() as client:
        client.set(b.entry, client.get(a.entry))
        client.set(b.generation, client.get(a.generation))
    assert await cache.result("q", "b") == "MISS"


async def test_invalidating_a_tenant(cache, redis_server):
    for n in range(30):
        await stored(cache, str(n), tenant="a")
        await stored(cache, str(n), tenant="b")
    assert await cache.invalidate("a") == 30
    for n in range(30):
        assert await cache.result(str(n), "a") == "MISS"
        assert await cache.result(str(n), "b") == "HIT_EXACT"
    with redis_server.client() as client:
        assert client.keys(tenant_prefix("a") + b"*") == [generation_key("a")]
    assert await cache.invalidate("a") == 0
    assert await cache.invalidate("b", fingerprint("7")) == 1
    assert await cache.result("7", "b") == "MISS"


async def test_concurrent_stores_leave_one_whole_answer(redis_server):
    answers = [make_answer(f"answer {n} " * 200) for n in range(40)]
    async with (
        redis_server.patient_store() as one,
        redis_server.patient_store() as two,
        running_cache(one, store_timeout_ms=PATIENT_MS, leeway=AMPLE) as a,
        running_cache(two, store_timeout_ms=PATIENT_MS, leeway=AMPLE) as b,
    ):
        kept = await asyncio.gather(*((a if n % 2 else b).store("q", answer) for n, answer in enumerate(answers)))
        assert all(kept)
        for replica in (a, b):
            assert (await replica.lookup("q")).answer in answers


async def test_a_storm_of_cancelled_callers_leaves_the_pool_healthy(redis_server):
    noise = random.Random(7)
    async with (
        redis_server.patient_store(connections=4) as store,
        running_cache(store, store_timeout_ms=PATIENT_MS, leeway=AMPLE) as cache,
    ):
        for n in range(20):
            assert await cache.store(str(n), make_answer(f"answer {n}"))

        async def impatient(n):
            call = cache.stub.Lookup(cache_pb2.LookupRequest(key=key_of(n)), timeout=60)
            await asyncio.sleep(noise.random() * 0.02)
            call.cancel()

        with redis_server.client() as client:
            for _ in range(10):
                # Redis holds its answers back, so that callers go while their commands are on the wire.
                client.execute_command("CLIENT", "PAUSE", 20, "ALL")
                await asyncio.gather(*(impatient(n % 20) for n in range(40)))
                # Every connection still belongs to its own question, and none was lost.
                found = await asyncio.gather(*(cache.lookup(str(n)) for n in range(20)))
                assert [answer.answer.deltas[0].text for answer in found] == [f"answer {n}" for n in range(20)]
            assert client.info("stats")["total_connections_received"] < 10


def key_of(n):
    return cache_pb2.CacheKey(tenant="local", fingerprint=fingerprint(str(n)))


async def test_redis_that_was_never_there_is_a_miss(redis_server):
    redis_server.kill()
    async with open_redis_store(redis_server.url) as store, running_cache(store) as cache:
        assert await cache.result() == "STORE_UNAVAILABLE"
        redis_server.start()
        await until(cache, "MISS")


@pytest.mark.parametrize("url", ["http://x", "redis://:secret@127.0.0.1:port/0", "redis://h?no_such_option=1", "x"])
async def test_a_wrong_url_is_refused_without_showing_it(url):
    with pytest.raises(ConfigError, match="REDIS_URL") as caught:
        async with open_redis_store(url):
            pass
    assert "secret" not in str(caught.value)
