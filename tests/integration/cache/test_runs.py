"""Claims of runs, and their events, on a real Redis."""

import asyncio
from contextlib import AsyncExitStack

import grpc
import pytest
from harness.answers import make_answer
from harness.cache import AMPLE, make_key, running_cache
from harness.eventually import eventually
from tiermesh.api.cache.v1 import cache_pb2
from tiermesh.api.common.v1 import answer_pb2
from tiermesh.api.router.v1 import router_pb2
from tiermesh.cache.adapters.redis import CHANGES
from tiermesh.cache.adapters.redis_log import RedisLog
from tiermesh.cache.adapters.redis_runs import RedisRuns
from tiermesh.cache.keys import place_of
from tiermesh.cache.run_tokens import RunKeys
from tiermesh.shared.errors import InvalidRequest, Unavailable


@pytest.fixture
async def cache(redis_server):
    async with AsyncExitStack() as stack:
        store, waiting = [await stack.enter_async_context(redis_server.patient_store()) for _ in range(2)]
        # Longer than a busy machine pauses: what is gone says so here.
        board = RedisRuns(store.client, waiting.client, alive_ms=100_000, follows_ms=100_000)
        yield await stack.enter_async_context(running_cache(store, board=board, store_timeout_ms=60_000, leeway=AMPLE))


async def claim(cache, router="r1", text="question", tenant="local"):
    request = cache_pb2.LookupRequest(key=make_key(text, tenant), claim=cache_pb2.RunClaim(router=router))
    return (await cache.call("Lookup", request)).run


async def live(cache, stack, *routers):
    """Opens the streams that routers live by."""
    for router in routers:
        stream = cache.stub.Lead(cache_pb2.LeadRequest(router=router), timeout=60)
        stack.callback(stream.cancel)
        assert not (await stream.read()).wanted_tokens


def delta(text):
    return router_pb2.GenerateResponse(delta=answer_pb2.Delta(text=text))


async def publish(cache, token, *events, first=0, last=False):
    request = cache_pb2.PublishRequest(token=token, first_event_index=first, events=events, last=last)
    return await cache.call("Publish", request)


async def followers(cache, token, count):
    """Waits until so many follow a run."""

    async def there() -> bool:
        return (await publish(cache, token)).follower_count == count

    await eventually(there)


async def read_all(stream):
    async with asyncio.timeout(60):
        return [event.delta.text async for response in stream for event in response.events]


async def test_of_many_that_miss_at_once_one_leads(cache):
    runs = await asyncio.gather(*(claim(cache, f"r{n}") for n in range(20)))
    assert sum(run.leading for run in runs) == 1
    assert len({run.token for run in runs}) == 1


async def test_the_leaders_own_further_lookups_lead_the_same_run(cache):
    first, again, other = await claim(cache), await claim(cache), await claim(cache, "r2")
    assert (again.leading, again.token, other.leading) == (True, first.token, False)


async def test_tenants_never_share_a_run(cache):
    one, other = await claim(cache), await claim(cache, "r2", tenant="other")
    assert one.leading
    assert other.leading
    assert one.token != other.token


async def test_a_hit_claims_nothing_and_a_store_ends_the_claim(cache, redis_server):
    run = await claim(cache)
    assert await cache.store(answer=make_answer("whole"), run_token=run.token)
    assert not (await claim(cache, "r2")).token
    with redis_server.client() as client:
        assert not client.keys("tiermesh:run:*")


async def test_answers_that_come_together_are_stored_told_and_their_claims_ended(redis_server):
    async with AsyncExitStack() as stack:
        store, waiting = [await stack.enter_async_context(redis_server.patient_store()) for _ in range(2)]
        log = RedisLog(store.client, max_questions=9)
        board = RedisRuns(store.client, waiting.client)
        cache = await stack.enter_async_context(
            running_cache(store, board=board, log=log, store_timeout_ms=60_000, local_entries=9, leeway=AMPLE)
        )
        texts = [f"question {n}" for n in range(8)]
        looked = []
        for text in texts:
            request = cache_pb2.LookupRequest(key=make_key(text), claim=cache_pb2.RunClaim(router="r1"))
            looked.append(await cache.call("Lookup", request))
        await cache.invalidate(fingerprint=make_key(texts[3]).fingerprint)
        requests = [
            cache_pb2.StoreRequest(
                key=make_key(text), answer=make_answer(text), token=found.store_token, run_token=found.run.token
            )
            for text, found in zip(texts, looked, strict=True)
        ]
        with redis_server.client() as client:
            stored = await cache.call("BatchStore", cache_pb2.BatchStoreRequest(requests=requests))
            assert [each.stored for each in stored.responses] == [n != 3 for n in range(8)]
            told = [fields[b"key"] for _, fields in client.xrange(CHANGES)]
            assert len([key for key in told if key.startswith(place_of("local", b"\0" * 32).entry[:20])]) == 8
            assert not [key for key in client.keys("tiermesh:run:*") if b"alive" not in key and b"wanted" not in key]
        assert [await cache.result(text) for text in texts] == ["MISS" if n == 3 else "HIT_EXACT" for n in range(8)]


async def test_what_was_forgotten_can_be_claimed_at_once(cache):
    await cache.store(answer=make_answer("whole"))
    await cache.invalidate(fingerprint=make_key("question", "local").fingerprint)
    assert (await claim(cache)).leading


async def invalidate(cache, how):
    ways = {
        "all": {},
        "hand": {"fingerprint": make_key("question", "local").fingerprint},
        "tag": {"tags": ["shop"]},
        "model": {"model": "small"},
        "prompt": {"prompt_version": "7"},
    }
    await cache.call("Invalidate", cache_pb2.InvalidateRequest(tenant="local", **ways[how]))


@pytest.mark.parametrize("how", ["all", "hand", "tag", "model", "prompt"])
async def test_after_an_invalidation_a_new_run_is_claimed_and_the_old_one_goes_on_for_its_followers(cache, how):
    async with AsyncExitStack() as stack:
        await live(cache, stack, "r1", "r2")
        old, other = await claim(cache), await claim(cache, text="another question")
        follow = asyncio.ensure_future(
            read_all(cache.stub.Follow(cache_pb2.FollowRequest(token=old.token), timeout=60))
        )
        await followers(cache, old.token, 1)
        await invalidate(cache, how)
        new = await claim(cache, "r2")
        assert new.leading
        assert new.token != old.token
        # By hand, only one answer is forgotten.
        assert (await claim(cache, "r2", text="another question")).leading == (how != "hand")
        assert not (await publish(cache, old.token, delta("old"))).superseded
        # What the old run's router lets go of is its own claim.
        assert not await cache.store(answer=make_answer("old"), run_token=old.token, token=b"\0" * 16)
        assert await follow == ["old"]
        again = await claim(cache, "r1")
        assert (again.leading, again.token) == (False, new.token)
        assert (await publish(cache, other.token)).superseded is False


async def test_a_run_claimed_behind_a_forgotten_or_damaged_answer_is_shared(cache, redis_server):
    await cache.store(answer=make_answer("whole"))
    await invalidate(cache, "all")
    stale = [await claim(cache, router) for router in ("r1", "r2")]
    assert [run.leading for run in stale] == [True, False]
    assert stale[0].token == stale[1].token
    with redis_server.client() as client:
        client.set(place_of("local", make_key("damaged", "local").fingerprint).entry, b"rubbish")
    damaged = [await claim(cache, router, text="damaged") for router in ("r1", "r2")]
    assert [run.leading for run in damaged] == [True, False]


async def test_a_server_that_forgets_its_scripts_is_told_them_again(cache, redis_server):
    first = await claim(cache)
    with redis_server.client() as client:
        client.script_flush()
    assert (await claim(cache, "r2")).token == first.token


async def test_followers_are_given_all_events_in_order_whenever_they_come(cache):
    async with AsyncExitStack() as stack:
        await live(cache, stack, "r1")
        token = (await claim(cache)).token
        early = asyncio.ensure_future(read_all(cache.stub.Follow(cache_pb2.FollowRequest(token=token), timeout=60)))
        await followers(cache, token, 1)
        await publish(cache, token, delta("a"), delta("b"))
        late = asyncio.ensure_future(read_all(cache.stub.Follow(cache_pb2.FollowRequest(token=token), timeout=60)))
        await followers(cache, token, 2)
        # The router begins anew for the late one; the early one is not given anything twice.
        await publish(cache, token, delta("a"), delta("b"), delta("c"))
        await publish(cache, token, delta("d"), first=3)
        await publish(cache, token, last=True)
        assert await early == await late == ["a", "b", "c", "d"]


async def test_a_gap_ends_the_stream_rather_than_hide_what_was_lost(cache):
    async with AsyncExitStack() as stack:
        await live(cache, stack, "r1")
        token = (await claim(cache)).token
        reading = asyncio.ensure_future(read_all(cache.stub.Follow(cache_pb2.FollowRequest(token=token), timeout=60)))
        await followers(cache, token, 1)
        await publish(cache, token, delta("a"))
        await publish(cache, token, delta("c"), first=2)
        assert await reading == ["a"]


async def test_damaged_events_end_the_stream_and_entries_without_meaning_are_passed_over(cache, redis_server):
    async with AsyncExitStack() as stack:
        await live(cache, stack, "r1")
        token = (await claim(cache)).token
        reading = asyncio.ensure_future(read_all(cache.stub.Follow(cache_pb2.FollowRequest(token=token), timeout=60)))
        await followers(cache, token, 1)
        await publish(cache, token, delta("a"))
        with redis_server.client() as client:
            events = RunKeys().events(token)
            client.xadd(events, {"of": "tomorrow"})
            client.xadd(events, {"n": 1, "e": b"\xff\xff rubbish"})
        await publish(cache, token, delta("b"), first=1)
        assert await reading == ["a"]


@pytest.mark.parametrize("kind", ["string", "list"])
async def test_a_damaged_claim_makes_everyone_run_their_own(cache, redis_server, kind):
    name = RunKeys().claim((await claim(cache)).token)
    with redis_server.client() as client:
        client.delete(name)
        client.set(name, b"\xff rubbish") if kind == "string" else client.rpush(name, "x")
        looked = cache_pb2.LookupRequest(key=make_key("question"), claim=cache_pb2.RunClaim(router="r2"))
        found = await cache.call("Lookup", looked)
        assert found.result == cache_pb2.CACHE_RESULT_MISS
        assert not found.HasField("run")


async def test_nothing_is_kept_that_nobody_waits_for(cache, redis_server):
    async with AsyncExitStack() as stack:
        await live(cache, stack, "r1")
        token = (await claim(cache)).token
        assert (await publish(cache, token, delta("a"))).follower_count == 0
        with redis_server.client() as client:
            assert not client.keys("tiermesh:run:1:events:*")


async def test_a_router_hears_who_comes_and_who_goes(cache):
    lead = cache.stub.Lead(cache_pb2.LeadRequest(router="r1"), timeout=60)
    async with asyncio.timeout(60):
        await lead.read()
        token = (await claim(cache)).token
        follow = cache.stub.Follow(cache_pb2.FollowRequest(token=token), timeout=60)
        assert list((await lead.read()).wanted_tokens) == [token]
        await followers(cache, token, 1)
        follow.cancel()
        assert list((await lead.read()).wanted_tokens) == [token]
        await followers(cache, token, 0)
    lead.cancel()


async def test_a_claim_whose_router_is_gone_is_free_again(cache):
    lead = cache.stub.Lead(cache_pb2.LeadRequest(router="r1"), timeout=60)
    await lead.read()
    token = (await claim(cache)).token
    follow = asyncio.ensure_future(read_all(cache.stub.Follow(cache_pb2.FollowRequest(token=token), timeout=60)))
    await followers(cache, token, 1)
    lead.cancel()
    assert await follow == []
    # The next to follow clears it away, and whoever looks up then leads.
    assert await read_all(cache.stub.Follow(cache_pb2.FollowRequest(token=token), timeout=60)) == []
    again = await claim(cache, "r2")
    assert again.leading
    assert (await publish(cache, token, delta("late"))).superseded


async def test_a_run_claimed_through_a_replica_of_an_earlier_release_can_be_followed_through_this_one(
    cache, redis_server
):
    # There, runs are named by the request alone, and the moment is not looked at.
    digest = place_of("local", make_key("question").fingerprint).digest.decode()
    token = f"{digest}-{'1' * 16}"
    async with AsyncExitStack() as stack:
        await live(cache, stack, "r1")
        with redis_server.client() as client:
            client.set(f"tiermesh:run:1:{digest}", f"{token} r1 ", px=100_000)
        reading = asyncio.ensure_future(read_all(cache.stub.Follow(cache_pb2.FollowRequest(token=token), timeout=60)))
        await followers(cache, token, 1)
        # A request that is looked up here shares nothing with it.
        assert (await claim(cache, "r2")).leading
        await publish(cache, token, delta("a"))
        assert await cache.store(answer=make_answer("a"), run_token=token)
        assert await reading == ["a"]
        with redis_server.client() as client:
            assert not client.exists(f"tiermesh:run:1:{digest}")


@pytest.mark.parametrize("method", ["Publish", "Store"])
async def test_a_malformed_token_is_refused(cache, method):
    requests = {
        "Publish": cache_pb2.PublishRequest(token="x"),
        "Store": cache_pb2.StoreRequest(key=make_key("q", "local"), answer=make_answer("a"), run_token="*"),
    }
    with pytest.raises(InvalidRequest):
        await cache.call(method, requests[method])


async def test_where_runs_are_not_shared_nobody_is_told_to_wait(redis_server):
    async with (
        redis_server.patient_store() as store,
        running_cache(store, store_timeout_ms=60_000, leeway=AMPLE) as cache,
    ):
        assert not (await claim(cache)).token
        with pytest.raises(Unavailable):
            await publish(cache, "0" * 64 + "-" + "0" * 16)
        stream = cache.stub.Follow(cache_pb2.FollowRequest(token="0" * 64 + "-" + "0" * 16), timeout=20)
        with pytest.raises(grpc.aio.AioRpcError):
            await read_all(stream)
