"""The cache on a real Redis that Sentinels watch, which fails over."""

import asyncio
import itertools
import statistics
import time
from contextlib import asynccontextmanager
from functools import partial

import pytest
from harness.answers import fingerprint, make_answer
from harness.cache import confirmed, running_cache
from harness.eventually import eventually
from harness.redis_sentinel import SERVICE, real_sentinel
from harness.two_routers import joined, read, two_routers
from tiermesh.api.cache.v1 import cache_pb2
from tiermesh.cache.adapters.redis_log import RedisLog
from tiermesh.cache.adapters.redis_open import open_redis_store
from tiermesh.cache.adapters.redis_rivals import RedisSentinelStore
from tiermesh.cache.adapters.redis_sentinel import make_member, make_sentinel_pool
from tiermesh.cache.keys import place_of
from tiermesh.shared.config import ConfigError
from tiermesh.shared.errors import Unavailable
from tiermesh.shared.testing import answer_steps

MISSES = {cache_pb2.CACHE_RESULT_MISS, cache_pb2.CACHE_RESULT_STORE_UNAVAILABLE}
SLACK_S = 0.25
"""What a busy machine may add to most waits of 5 ms; unbounded, each would take the second of a socket's timeout."""


@pytest.fixture
def redis(tmp_path):
    with real_sentinel(tmp_path / "redis") as redis:
        yield redis


@pytest.fixture
async def cache(redis):
    """A cache with the bound that meshes have, and a memory of its own."""
    async with open_redis_store(redis.url) as store:
        log = RedisLog(store.client, max_questions=9)
        async with running_cache(store, log=log, store_timeout_ms=5) as cache:
            yield cache


def has(member, text):
    """Whether a server has an answer."""
    return bool(member.say("EXISTS", place_of("local", fingerprint(text)).entry))


async def test_a_failover_is_a_kind_of_miss_in_time_and_what_was_forgotten_stays_forgotten(redis, cache):
    await eventually(lambda: cache.store("kept", make_answer("right")))
    await eventually(lambda: cache.store("forgotten", make_answer("wrong")))
    # Once that is confirmed, all before it outlasts the primary.
    await eventually(lambda: confirmed(cache.invalidate(fingerprint=fingerprint("forgotten"))))
    redis.fail()
    took, results = [], []

    async def found_again():
        began = time.monotonic()
        kept, gone = await cache.lookup("kept"), await cache.result("forgotten")
        took.append((time.monotonic() - began) / 2)
        results.append(kept.result)
        assert gone != "HIT_EXACT"
        await cache.store("meanwhile")
        if kept.result != cache_pb2.CACHE_RESULT_HIT_EXACT:
            return False
        assert kept.answer == make_answer("right")
        return redis.replica.replication()["role"] == "master"

    await eventually(found_again)
    assert set(results) <= MISSES | {cache_pb2.CACHE_RESULT_HIT_EXACT}
    assert statistics.median(took) < SLACK_S
    await eventually(lambda: cache.store("after"))
    assert has(redis.replica, "after")
    await eventually(lambda: confirmed(cache.invalidate()))
    assert (await cache.lookup("kept")).result in MISSES


async def test_a_primary_that_is_replaced_while_it_lives_is_left(redis, cache):
    await eventually(lambda: cache.store("before"))
    redis.fail_over()

    numbers = itertools.count()

    async def at_the_new_one():
        if redis.replica.replication()["role"] != "master":
            return False
        # It is seconds until the old one is told; until then it takes writes, which are lost.
        text = f"after {next(numbers)}"
        await cache.store(text)
        return has(redis.replica, text)

    await eventually(at_the_new_one)


def sentinel_parts(redis):
    """The Sentinels and the pool of their primary, as they are opened."""
    return make_sentinel_pool(redis.url.replace("+sentinel", "", 1), connections=4, socket_timeout_s=60)


@asynccontextmanager
async def cache_at(member, redis):
    """A cache of the Sentinels that takes a server for the primary, whatever they say by now."""
    sentinel, pool = sentinel_parts(redis)
    client = make_member(pool, ("127.0.0.1", member.port), connections=8)
    store = RedisSentinelStore(
        client,
        primary=lambda: ("127.0.0.1", member.port),
        members=partial(sentinel.members, SERVICE),
        connect=partial(make_member, pool),
    )
    try:
        async with running_cache(store, log=RedisLog(client, max_questions=9), store_timeout_ms=2000) as cache:
            yield cache
    finally:
        for each in (client, pool, sentinel):
            await each.aclose()


WAYS = {
    "tenant": lambda cache: cache.invalidate(),
    "tag": lambda cache: cache.call("Invalidate", cache_pb2.InvalidateRequest(tenant="local", tags=["shop"])),
    "one": lambda cache: cache.invalidate(fingerprint=fingerprint("forgotten")),
}


@pytest.mark.parametrize("forgets_at", ["new", "old"])
async def test_what_is_forgotten_while_two_take_themselves_for_the_primary_is_given_by_nobody(redis, forgets_at):
    async with cache_at(redis.primary, redis) as old, cache_at(redis.replica, redis) as new:
        await asyncio.to_thread(redis.fail_over_unheard)
        caches = {"old": old, "new": new}
        for forget in WAYS.values():
            for cache in (old, new):
                for text in ("forgotten", "kept"):
                    await eventually(lambda cache=cache, text=text: cache.store(text, tags=["shop"]))
                    # From here on it has the answer in its memory, too.
                    await eventually(lambda cache=cache, text=text: hit(cache, text))
            await eventually(lambda forget=forget: confirmed(forget(caches[forgets_at])))
            for cache in (old, new):
                assert not await hit(cache, "forgotten")
        assert await hit(old, "kept")
        assert await hit(new, "kept")
        assert redis.primary.replication()["role"] == "master"


async def hit(cache, text):
    return await cache.result(text) == "HIT_EXACT"


async def test_what_a_primary_did_not_pass_on_before_it_died_is_not_given_by_the_next(redis, cache):
    for text in ("forgotten", "kept"):
        await eventually(lambda text=text: cache.store(text, tags=[text]))
        await eventually(lambda text=text: hit(cache, text))
    await asyncio.to_thread(redis.cut_off)
    tag = cache_pb2.InvalidateRequest(tenant="local", tags=["forgotten"])
    await eventually(lambda: confirmed(cache.call("Invalidate", tag)))
    assert not await hit(cache, "forgotten")
    redis.fail()
    await eventually(lambda: asyncio.to_thread(lambda: redis.replica.replication()["role"] == "master"))
    assert has(redis.replica, "forgotten")

    async def repaired():
        assert not await hit(cache, "forgotten")
        return await cache.store("kept") and await hit(cache, "kept")

    await eventually(repaired)
    assert not await hit(cache, "forgotten")


async def test_an_invalidation_that_a_replica_does_not_confirm_is_in_force_and_says_so(redis):
    async with (
        open_redis_store(redis.url, socket_timeout_s=60) as store,
        running_cache(store, store_timeout_ms=60_000) as cache,
    ):
        await eventually(lambda: cache.store("q"))
        redis.replica.freeze()
        with pytest.raises(Unavailable, match="replica"):
            await cache.invalidate()
        assert await cache.result("q") == "MISS"
        redis.replica.thaw()
        await eventually(lambda: confirmed(cache.invalidate()))


async def test_routers_share_runs_and_a_failover_in_the_middle_costs_nobody_an_answer(redis):
    async with two_routers(redis.url, waiting_s=5.0, store_s=1.0) as mesh:
        gate = asyncio.Event()
        mesh.engine.steps = [gate, *answer_steps("one ", "two")]
        leader = mesh.first.call()
        async with asyncio.timeout(60):
            await mesh.engine.entered.wait()
        follower = asyncio.ensure_future(mesh.second.ask())
        await joined(mesh.first)
        redis.fail()
        gate.set()
        mesh.engine.steps = answer_steps("one ", "two")
        answers = await read(leader), await follower
        assert [(answer.text, answer.kinds()[-1]) for answer in answers] == [("one two", "done")] * 2


@pytest.mark.parametrize(
    "url",
    [
        "redis+sentinel://h:1",
        "redis+sentinel://:secret@h:port/mesh",
        "redis+sentinel://h:1,/mesh",
        "redis+sentinel://h:1/mesh/first",
        "redis+sentinel://h:1/mesh?no_such_option=1",
    ],
)
async def test_a_wrong_url_is_refused_without_showing_it(url):
    with pytest.raises(ConfigError, match="sentinel://host") as caught:
        async with open_redis_store(url):
            pass
    assert "secret" not in str(caught.value)


async def test_a_url_says_who_to_ask_and_as_whom():
    url = "rediss://me:its%40secret@one:1,[::1],three:3/mesh/2?sentinel_password=theirs&ssl_check_hostname=false"
    sentinel, pool = make_sentinel_pool(url, connections=7, socket_timeout_s=1.5)
    asked = [client.connection_pool.connection_kwargs for client in sentinel.sentinels]
    assert [(each["host"], each["port"]) for each in asked] == [("one", 1), ("::1", 26379), ("three", 3)]
    assert {each["password"] for each in asked} == {"theirs"}
    options = pool.connection_kwargs
    assert (pool.service_name, pool.max_connections, options["db"]) == ("mesh", 7, 2)
    assert (options["username"], options["password"]) == ("me", "its@secret")
    assert issubclass(pool.connection_class, type(pool.make_connection()))
    assert "SSL" in pool.connection_class.__name__
    await pool.aclose()
    await sentinel.aclose()
