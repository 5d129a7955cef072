"""Identical requests at two routers: one run, through a real cache and a real Redis."""

import asyncio
import itertools

import pytest
from harness.eventually import eventually
from harness.router import METADATA, ask
from harness.two_routers import joined, read, two_routers
from tiermesh.api.common.v1 import answer_pb2, chat_pb2
from tiermesh.api.engine.v1 import engine_pb2
from tiermesh.api.router.v1 import router_pb2
from tiermesh.shared.errors import InternalError
from tiermesh.shared.testing import answer_steps

COALESCED, MISS = router_pb2.CACHE_STATUS_COALESCED, router_pb2.CACHE_STATUS_MISS
OTHER = (("x-tiermesh-tenant", "acme"), ("x-request-id", "req-2"))


def begun():
    return engine_pb2.GenerateResponse(started=engine_pb2.Started(model="scripted"))


def delta(text):
    return engine_pb2.GenerateResponse(delta=answer_pb2.Delta(text=text))


async def led(mesh, *steps, then=None, request=None):
    """Starts a request at the first router, which waits before its last steps; returns the call and the gate."""
    gate = asyncio.Event()
    mesh.engine.steps = [*steps, gate, *(then or answer_steps("one ", "two ", "三"))]
    call = mesh.first.call(request)
    async with asyncio.timeout(60):
        await mesh.engine.entered.wait()
    return call, gate


async def test_a_request_at_the_other_router_shares_the_run_live_and_from_the_start(mesh):
    leader, gate = await led(mesh, begun(), delta("one "), delta("two "), then=answer_steps("三")[1:])
    follower = mesh.second.call(metadata=OTHER)
    async with asyncio.timeout(60):
        seen = [await follower.read() for _ in range(3)]
    assert [event.WhichOneof("event") for event in seen] == ["route", "delta", "delta"]
    assert (seen[0].route.cache_status, seen[0].route.request_id) == (COALESCED, "req-2")
    assert not gate.is_set(), "the run still goes on"
    gate.set()
    rest, whole = await read(follower), await read(leader)
    assert rest.kinds() == ["delta", "done"]
    assert rest.last.done.usage == answer_pb2.Usage()
    assert "".join(event.delta.text for event in seen) + rest.text == whole.text == "one two 三"
    assert len(mesh.engine.requests) == 1


async def test_a_followers_span_links_to_the_leaders_at_the_other_router(mesh):
    leader, gate = await led(mesh)
    follower = asyncio.ensure_future(mesh.second.ask(metadata=OTHER))
    await joined(mesh.first)
    gate.set()
    first, second = await read(leader), await follower
    assert second.route.cache_status == COALESCED

    async def linked():
        return [link for span in mesh.second.tracing.finished for link in span.links]

    (link,) = await eventually(linked)
    assert format(link.context.trace_id, "032x") == first.route.trace_id != second.route.trace_id


async def test_the_answer_of_a_shared_run_is_found_by_the_next(mesh):
    leader, gate = await led(mesh)
    follower = asyncio.ensure_future(mesh.second.ask())
    await joined(mesh.first)
    gate.set()
    await read(leader)
    await follower
    await mesh.first.wired.stores.drain()
    assert (await mesh.second.ask()).route.cache_status == router_pb2.CACHE_STATUS_HIT
    assert len(mesh.engine.requests) == 1


async def test_nobody_waits_for_a_run_that_ended_without_being_kept(mesh):
    mesh.engine.steps = answer_steps("cut", finish=answer_pb2.FINISH_REASON_LENGTH)
    await mesh.first.ask()
    await mesh.first.wired.neighbours.drain()
    again = await mesh.second.ask()
    assert again.route.cache_status == MISS
    assert len(mesh.engine.requests) == 2


async def test_a_leader_that_leaves_keeps_the_run_going_for_the_other_router(mesh):
    leader, gate = await led(mesh, begun(), delta("one "), then=answer_steps("two")[1:])
    follower = mesh.second.call()
    async with asyncio.timeout(60):
        await follower.read()
    leader.cancel()
    gate.set()
    answer = await read(follower)
    assert (answer.text, answer.kinds()[-1]) == ("one two", "done")
    assert not mesh.engine.abandoned.is_set()


async def test_the_last_one_to_leave_cancels_the_engine_from_wherever_it_was(mesh):
    leader, _ = await led(mesh, begun(), delta("one "))
    follower = mesh.second.call()
    async with asyncio.timeout(60):
        await follower.read()
        leader.cancel()
        follower.cancel()
        await mesh.engine.abandoned.wait()
    assert len(mesh.engine.requests) == 1


async def test_a_run_that_fails_is_begun_anew_at_the_other_router(mesh):
    leader, gate = await led(mesh, then=[InternalError("a defect")])
    follower = asyncio.ensure_future(mesh.second.ask(metadata=OTHER))
    await joined(mesh.first)
    mesh.engine.steps = answer_steps("whole")
    gate.set()
    assert (await read(leader)).error.reason == "INTERNAL"
    answer = await follower
    assert (answer.text, answer.route.request_id, answer.kinds()[-1]) == ("whole", "req-2", "done")


async def test_a_router_that_vanishes_promotes_a_follower_which_goes_on_where_it_was(mesh):
    leader, _ = await led(mesh, begun(), delta("one "), delta("tw"))
    follower = mesh.second.call()
    async with asyncio.timeout(60):
        seen = [await follower.read() for _ in range(3)]
    mesh.engine.steps = answer_steps("one two ", "three")
    await mesh.first.vanish()
    answer = await read(follower)
    assert "".join(event.delta.text for event in seen) + answer.text == "one two three"
    assert answer.kinds()[-1] == "done"
    assert len(mesh.engine.requests) == 2
    leader.cancel()


async def test_a_router_that_was_held_up_writes_nothing_into_the_run_that_took_its_place(mesh):
    leader, gate = await led(mesh, begun(), delta("old "))
    await mesh.first.vanish()
    mesh.engine.steps = answer_steps("new")
    assert (await mesh.second.ask()).text == "new"
    gate.set()
    assert (await read(leader)).text == "old one two 三"


@pytest.mark.parametrize("how", [{}, {"tags": ["shop"]}, {"model": "small"}, {"prompt_version": "7"}])
async def test_after_an_invalidation_both_routers_share_a_new_run_and_followers_keep_the_old_one(mesh, how):
    leader, gate = await led(mesh, begun(), delta("old "), then=answer_steps("answer")[1:])
    follower = mesh.second.call()
    async with asyncio.timeout(60):
        seen = [await follower.read() for _ in range(2)]
    await mesh.invalidate(**how)
    mesh.engine.entered.clear()
    new_gate = asyncio.Event()
    mesh.engine.steps = [new_gate, *answer_steps("new")]
    new = mesh.second.call()
    async with asyncio.timeout(60):
        await mesh.engine.entered.wait()
    joins = asyncio.ensure_future(mesh.first.ask(metadata=OTHER))
    await joined(mesh.second)
    gate.set()
    rest, whole = await read(follower), await read(leader)
    assert seen[1].delta.text + rest.text == whole.text == "old answer"
    assert rest.kinds()[-1] == "done"
    new_gate.set()
    first, second = await read(new), await joins
    assert (first.text, second.text) == ("new", "new")
    assert (first.route.cache_status, second.route.cache_status) == (MISS, COALESCED)
    for router in (mesh.first, mesh.second):
        await router.wired.stores.drain()
    assert (await mesh.first.ask()).text == "new"
    assert len(mesh.engine.requests) == 2


@pytest.mark.parametrize(
    ("request_", "metadata"),
    [
        (ask(), (("x-tiermesh-tenant", "other"),)),
        (ask("What is a lake?"), OTHER),
        (ask(priority=chat_pb2.PRIORITY_BATCH), OTHER),
        (ask(cache_mode=router_pb2.CACHE_MODE_OFF), OTHER),
    ],
)
async def test_what_is_not_the_same_runs_by_itself(mesh, request_, metadata):
    leader, gate = await led(mesh)
    mesh.engine.steps = answer_steps("its own")
    answer = await mesh.second.ask(request_, metadata=metadata)
    assert (answer.text, answer.route.cache_status != COALESCED) == ("its own", True)
    gate.set()
    assert (await read(leader)).text == "one two 三"


async def test_all_at_once_at_both_routers_run_once(mesh):
    gate = asyncio.Event()
    mesh.engine.steps = [gate, *answer_steps("one")]
    asking = [asyncio.ensure_future(router.ask()) for router in (mesh.first, mesh.second) for _ in range(8)]

    async def gathered():
        flights = [f for r in (mesh.first, mesh.second) for f in r.wired.flow.flights.under_way]
        return sum(flight.member_count for flight in flights) >= 16

    await eventually(gathered)
    gate.set()
    answers = await asyncio.gather(*asking)
    assert {answer.text for answer in answers} == {"one"}
    assert len(mesh.engine.requests) == 1
    assert sum(answer.route.cache_status == MISS for answer in answers) == 1


async def test_a_redis_that_dies_costs_nobody_an_answer(mesh, redis_server):
    leader, gate = await led(mesh, begun(), delta("one "), then=answer_steps("two")[1:])
    mesh.engine.steps = answer_steps("one ", "two")
    follower = mesh.second.call()
    async with asyncio.timeout(60):
        await follower.read()
    redis_server.kill()
    gate.set()
    assert (await read(leader)).text == "one two"
    answer = await read(follower)
    assert (answer.text, answer.kinds()[-1]) == ("one two", "done")


async def test_without_redis_each_router_is_alone_and_nothing_fails(mesh, redis_server):
    redis_server.kill()
    first = await mesh.first.ask()
    second = await mesh.second.ask(metadata=METADATA)
    assert (first.text, second.text) == ("one two 三", "one two 三")
    assert first.kinds()[-1] == second.kinds()[-1] == "done"


async def test_redis_keeps_nothing_of_it_for_good(mesh, redis_server):
    leader, gate = await led(mesh)
    follower = asyncio.ensure_future(mesh.second.ask())
    await joined(mesh.first)
    gate.set()
    await read(leader)
    await follower
    with redis_server.client() as client:
        for key in client.keys("tiermesh:run:*"):
            assert client.pttl(key) > 0 or not client.exists(key)
            assert b"acme" not in key


async def test_a_redis_that_hangs_makes_a_follower_run_its_own_request(redis_server):
    async with two_routers(redis_server.url, waiting_s=0.5, store_s=1.0, store_timeout_ms=500) as mesh:
        leader, gate = await led(mesh, begun(), delta("one "), then=answer_steps("two")[1:])
        mesh.engine.steps = answer_steps("one ", "two")
        follower = mesh.second.call()
        async with asyncio.timeout(60):
            await follower.read()
        redis_server.freeze()
        answer = await read(follower)
        assert (answer.text, answer.kinds()[-1]) == ("one two", "done")
        gate.set()
        assert (await read(leader)).text == "one two"
        redis_server.thaw()


async def test_a_redis_that_takes_no_more_means_that_each_runs_its_own(mesh, redis_server):
    with redis_server.client() as client:
        client.config_set("maxmemory-policy", "noeviction")
        client.config_set("maxmemory", "1")
    leader, gate = await led(mesh)
    mesh.engine.steps = answer_steps("its own")
    answer = await mesh.second.ask()
    assert (answer.text, answer.kinds()[-1]) == ("its own", "done")
    gate.set()
    assert (await read(leader)).text == "one two 三"


async def test_a_redis_that_comes_back_empty_is_shared_through_again(mesh, redis_server):
    redis_server.kill()
    assert (await mesh.first.ask()).kinds()[-1] == "done"
    redis_server.start()

    async def heard() -> bool:
        with redis_server.client() as client:
            return len(client.keys("tiermesh:run:1:alive:*")) == 2

    await eventually(heard)
    for router in (mesh.first, mesh.second):
        async with asyncio.timeout(60):
            await router.wired.neighbours.is_heard.wait()
    numbers = itertools.count()

    async def asked_again() -> bool:
        # After failures the store is only tried again after a pause.
        return (await mesh.first.ask(ask(f"What is {next(numbers)}?"))).route.cache_status == MISS

    await eventually(asked_again)
    mesh.engine.entered.clear()
    leader, gate = await led(mesh, request=ask("What is a sea?"))
    follower = asyncio.ensure_future(mesh.second.ask(ask("What is a sea?")))
    await joined(mesh.first)
    gate.set()
    await read(leader)
    assert (await follower).route.cache_status == COALESCED
