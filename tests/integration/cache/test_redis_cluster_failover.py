"""What was forgotten stays so where a node of a Redis Cluster dies that had not passed it on."""

import asyncio
from contextlib import AsyncExitStack

import pytest
from harness.answers import fingerprint
from harness.cache import confirmed, running_cache
from harness.eventually import eventually
from harness.redis_cluster import MASTERS, real_cluster
from redis.crc import key_slot
from tiermesh.api.cache.v1 import cache_pb2
from tiermesh.cache.adapters.redis import CHANGES
from tiermesh.cache.adapters.redis_log import RedisLog
from tiermesh.cache.adapters.redis_open import open_redis_store
from tiermesh.cache.keys import generation_key, place_of
from tiermesh.cache.tokens import TOMBSTONE_BYTES
from tiermesh.shared.errors import Unavailable

PATIENT = {"store_timeout_ms": 2000}
SHARE = 16384 // MASTERS + 1
LOG_NODE = key_slot(CHANGES) // SHARE


@pytest.fixture
def cluster(tmp_path):
    with real_cluster(tmp_path / "nodes") as cluster:
        yield cluster


@pytest.fixture
async def replicas(cluster):
    """Starts replicas of the cache."""
    async with AsyncExitStack() as stack:

        async def start():
            # A reply that is late by a pause of the machine would close what all calls of a client share.
            opened = open_redis_store(cluster.url, socket_timeout_s=60)
            store = await stack.enter_async_context(opened)
            log = RedisLog(store.client, max_questions=9)
            return await stack.enter_async_context(running_cache(store, log=log, **PATIENT))

        yield start


def node_of(key):
    return key_slot(key) // SHARE


def tenants_on(node, *, count):
    """Tenants whose generation is on a node."""
    return [name for name in (f"t{n}" for n in range(1000)) if node_of(generation_key(name)) == node][:count]


def text_on(node, tenant, *, word="q"):
    """A text whose answer is on a node."""
    texts = (f"{word}{n}" for n in range(1000))
    return next(text for text in texts if node_of(place_of(tenant, fingerprint(text)).entry) == node)


def changes_at(node):
    return node.say("XRANGE", CHANGES, "-", "+")


async def stored(cache, text, tenant, **fields):
    await eventually(lambda: cache.store(text, tenant=tenant, **fields))


async def hit(cache, text, tenant):
    return await cache.result(text, tenant) == "HIT_EXACT"


async def missed(cache, text, tenant):
    """Whether the store says that there is no answer; there must never be one."""
    result = await cache.result(text, tenant)
    assert result != "HIT_EXACT"
    return result == "MISS"


async def test_an_invalidation_says_so_where_a_replica_of_a_node_does_not_confirm(cluster, replicas):
    cache = await replicas()
    (tenant,) = tenants_on(0, count=1)
    await stored(cache, "q", tenant)
    cluster.nodes[MASTERS].freeze()
    with pytest.raises(Unavailable):
        await cache.invalidate(tenant)
    assert not await hit(cache, "q", tenant)
    cluster.nodes[MASTERS].thaw()
    await eventually(lambda: confirmed(cache.invalidate(tenant)))


@pytest.mark.parametrize("lost", [0, LOG_NODE], ids=["their node", "their node and that of the log"])
async def test_a_node_that_dies_before_it_has_passed_on_an_invalidation_brings_nothing_back(cluster, replicas, lost):
    first, second = await replicas(), await replicas()
    whole, tagged = tenants_on(lost, count=2)
    (other,) = tenants_on((LOG_NODE + 1) % MASTERS, count=1)
    kept = text_on(lost, other, word="k")
    forgotten = [(text_on(lost, tenant), tenant) for tenant in (whole, tagged, other)]
    for text, tenant in [*forgotten, (kept, other)]:
        await stored(first, text, tenant, tags=["shop"])
        for cache in (first, second):
            await eventually(lambda cache=cache, text=text, tenant=tenant: hit(cache, text, tenant))
    await asyncio.to_thread(cluster.cut_off, master=lost)
    forgetting = (
        lambda: first.invalidate(whole),
        lambda: first.call("Invalidate", cache_pb2.InvalidateRequest(tenant=tagged, tags=["shop"])),
        lambda: first.invalidate(other, fingerprint(forgotten[-1][0])),
    )
    for forget in forgetting:
        await eventually(lambda forget=forget: confirmed(forget()))
    for cache in (first, second):
        assert not any([await hit(cache, text, tenant) for text, tenant in forgotten])

    cluster.nodes[lost].kill()
    await asyncio.to_thread(cluster.take_over)
    promoted = cluster.nodes[MASTERS]
    entries = [place_of(tenant, fingerprint(text)).entry for text, tenant in forgotten]
    there = [await asyncio.to_thread(promoted.say, "STRLEN", entry) for entry in entries]
    assert min(there) > TOMBSTONE_BYTES, "the invalidations were not lost: nothing is shown"
    for cache in (first, second):
        await eventually(lambda cache=cache: hit(cache, kept, other))

    log = promoted if lost == LOG_NODE else cluster.nodes[LOG_NODE]

    async def known_again():
        # Said again by those who heard it, where the log was lost, too.
        said = await asyncio.to_thread(changes_at, log)
        return sum(b"ended" in change or b"mark" in change for _, change in said) >= len(forgotten)

    await eventually(known_again)
    third = await replicas()
    for cache in (third, second, first):
        for text, tenant in forgotten:
            await eventually(lambda cache=cache, text=text, tenant=tenant: missed(cache, text, tenant))
    for text, tenant in forgotten:
        await stored(third, text, tenant)
        for cache in (first, second, third):
            await eventually(lambda cache=cache, text=text, tenant=tenant: hit(cache, text, tenant))
