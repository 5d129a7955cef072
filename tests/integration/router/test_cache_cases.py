"""Cases that answer caches are known to get wrong: a router, the real cache and a real Redis, a scripted engine."""

import asyncio

import pytest
from harness.router import METADATA, ask
from harness.two_routers import read, two_routers
from tiermesh.api.common.v1 import answer_pb2, chat_pb2
from tiermesh.api.router.v1 import router_pb2
from tiermesh.shared.errors import InvalidRequest, Unavailable
from tiermesh.shared.testing import FakeClock, answer_steps

HIT, MISS = router_pb2.CACHE_STATUS_HIT, router_pb2.CACHE_STATUS_MISS
OTHER_TENANT = (("x-tiermesh-tenant", "other"), ("x-request-id", "req-2"))


def pinned():
    # One tier alone: what it answers is what the caller gets.
    return ask(model="tier:l1")


async def settled(router):
    """Waits until what an answer leaves behind is in the cache, or is not going to be."""
    async with asyncio.timeout(60):
        await router.wired.stores.drain()
        await router.wired.neighbours.drain()


@pytest.mark.parametrize("wrong", ["400", "503", "length", "broken off"])
async def test_cache_errors_what_went_wrong_is_not_kept_and_the_repeat_reaches_the_tier(mesh, redis_server, wrong):
    healthy = mesh.engine.steps
    if wrong == "length":
        mesh.engine.steps = answer_steps("half an ", "answer", finish=answer_pb2.FINISH_REASON_LENGTH)
    elif wrong == "broken off":
        mesh.engine.steps = [*healthy[:2], Unavailable("connection lost")]
    else:
        mesh.engine.error = InvalidRequest("stop[0]: bad") if wrong == "400" else Unavailable("no room")
    failed = await mesh.first.ask(pinned())
    assert (failed.error is None) == (wrong == "length")
    await settled(mesh.first)
    with redis_server.client() as client:
        assert not [key for key in client.scan_iter("tiermesh:cache:1:*") if len(key.rsplit(b":", 1)[-1]) == 64]
    mesh.engine.error, mesh.engine.steps = None, healthy
    again = await mesh.first.ask(pinned())
    assert (again.route.cache_status, again.text) == (MISS, "one two 三")
    assert len(mesh.engine.requests) == 2
    await settled(mesh.first)
    kept = await mesh.first.ask(pinned())
    assert (kept.route.cache_status, kept.text) == (HIT, "one two 三")


async def test_cache_tenants_an_answer_is_its_tenants_alone(mesh):
    await mesh.first.ask()
    await settled(mesh.first)
    assert (await mesh.second.ask()).route.cache_status == HIT
    mesh.engine.steps = answer_steps("another one")
    theirs = await mesh.second.ask(metadata=OTHER_TENANT)
    assert (theirs.route.cache_status, theirs.text) == (MISS, "another one")
    await settled(mesh.second)
    assert (await mesh.first.ask()).text == "one two 三"
    assert (await mesh.first.ask(metadata=OTHER_TENANT)).text == "another one"
    assert len(mesh.engine.requests) == 2


@pytest.mark.parametrize("router", ["first", "second"])
async def test_cache_tenants_share_no_run_that_is_under_way(mesh, router):
    gate = asyncio.Event()
    mesh.engine.steps = [gate, *answer_steps("one tenant's")]
    leader = mesh.first.call(metadata=METADATA)
    async with asyncio.timeout(60):
        await mesh.engine.entered.wait()
        mesh.engine.steps = answer_steps("the other's")
        # It is answered while the first run still goes on, so it cannot have waited for it.
        theirs = await getattr(mesh, router).ask(metadata=OTHER_TENANT)
    assert (theirs.route.cache_status, theirs.text) == (MISS, "the other's")
    assert not gate.is_set()
    gate.set()
    ours = await read(leader)
    assert (ours.route.cache_status, ours.text) == (MISS, "one tenant's")
    assert len(mesh.engine.requests) == 2


@pytest.mark.parametrize(
    "change",
    [
        {"max_tokens": 10},
        {"stop": ["x"]},
        {"choice_count": 2},
        {"seed": 1},
        {"temperature": 0.0},
        {"temperature": 0.0, "seed": 1},
        {"top_p": 0.9},
        {"presence_penalty": 0.5},
        {"frequency_penalty": 0.5},
        {"logprobs": True},
    ],
    ids=" ".join,
)
async def test_cache_params_each_changes_the_answer(mesh, change):
    await mesh.first.ask(pinned())
    await settled(mesh.first)
    other = pinned()
    other.sampling.CopyFrom(chat_pb2.Sampling(**change))
    await mesh.first.ask(other)
    assert len(mesh.engine.requests) == 2
    # What was asked first is still there, and is not what the other was given.
    assert (await mesh.first.ask(pinned())).route.cache_status == HIT


async def test_cache_context_the_same_last_turn_in_another_conversation(mesh):
    def conversation(*earlier, system="Be brief."):
        turns = [(chat_pb2.ROLE_SYSTEM, system), *earlier, (chat_pb2.ROLE_USER, "how old is he?")]
        messages = [chat_pb2.Message(role=role, content=content) for role, content in turns]
        return router_pb2.GenerateRequest(messages=messages, model="tier:l1")

    def about(name):
        return (chat_pb2.ROLE_USER, f"Tell me of {name}."), (chat_pb2.ROLE_ASSISTANT, f"{name} wrote books.")

    await mesh.first.ask(conversation(*about("Kant")))
    await settled(mesh.first)
    assert (await mesh.second.ask(conversation(*about("Kant")))).route.cache_status == HIT
    for other in (
        conversation(*about("Hegel")),
        conversation(),
        conversation(*about("Kant"), *about("Hegel")),
        conversation(*about("Kant"), system="Be thorough."),
    ):
        assert (await mesh.second.ask(other)).route.cache_status == MISS


async def test_a_stale_answer_is_given_at_once_and_made_anew_behind_live_traffic(redis_server):
    clock = FakeClock()
    kept = {"ttl_s": 100, "stale_s_by_task_type": {"qa": 1000}}
    async with two_routers(redis_server.url, clock=clock, **kept) as mesh:
        await mesh.first.ask()
        await settled(mesh.first)
        fresh = await mesh.second.ask()
        assert (fresh.route.cache_status, list(fresh.route.reasons)) == (HIT, ["cache:exact"])
        clock.advance(111)
        gate = asyncio.Event()
        mesh.engine.steps = [gate, *answer_steps("made anew")]
        # Complete while the engine has not said a word of the new one, and not run once for each who asks.
        for _ in range(3):
            stale = await mesh.second.ask()
            assert (stale.route.cache_status, stale.text) == (HIT, "one two 三")
            assert list(stale.route.reasons) == ["cache:exact", "cache:stale"]
        gate.set()
        async with asyncio.timeout(60):
            await mesh.second.wired.reruns.drain()
        await settled(mesh.second)
        assert [request.priority for request in mesh.engine.requests[1:]] == [chat_pb2.PRIORITY_BATCH]
        again = await mesh.first.ask()
        assert (again.route.cache_status, again.text) == (HIT, "made anew")
        assert list(again.route.reasons) == ["cache:exact"]


async def test_refusals_are_given_and_not_kept(mesh):
    for text in ("I'm sorry, but I can't help with that.", "抱歉，我无法回答这个问题。"):
        mesh.engine.steps = answer_steps(*text)
        declined = await mesh.first.ask(pinned())
        assert (declined.error, declined.text) == (None, text)
        await settled(mesh.first)
    assert len(mesh.engine.requests) == 2
