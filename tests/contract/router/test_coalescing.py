"""Identical requests at the same time, at one router."""

import asyncio

import grpc
import pytest
from harness.eventually import eventually
from harness.router import METADATA, ask, running_router
from tiermesh.api.common.v1 import answer_pb2, chat_pb2
from tiermesh.api.engine.v1 import engine_pb2
from tiermesh.api.router.v1 import router_pb2
from tiermesh.shared.errors import InternalError, InvalidRequest, StreamBroken, Unavailable
from tiermesh.shared.testing import answer_steps

COALESCED = router_pb2.CACHE_STATUS_COALESCED
OTHER = (("x-tiermesh-tenant", "acme"), ("x-request-id", "req-2"))


def delta(text):
    return engine_pb2.GenerateResponse(delta=answer_pb2.Delta(text=text))


def begun():
    return engine_pb2.GenerateResponse(started=engine_pb2.Started(model="scripted"))


class Reading:
    """A caller that reads one answer event by event."""

    def __init__(self, mesh, request=None, *, metadata=METADATA, timeout=60):
        self.call = mesh.router.Generate(request or ask(), timeout=timeout, metadata=metadata)
        self._task = asyncio.ensure_future(mesh._read(self.call))

    async def answer(self):
        async with asyncio.timeout(60):
            return await self._task

    async def leave(self):
        self.call.cancel()
        await asyncio.gather(self._task, return_exceptions=True)


def counted(mesh, name="tiermesh.requests.coalesced"):
    return sum(point.value for point in mesh.counted(name).values())


async def led(mesh, request=None, *, tier="l1", **options):
    """Starts a request and waits until it is with its engine."""
    reading = Reading(mesh, request, **options)
    async with asyncio.timeout(60):
        await mesh.engines[tier].entered.wait()
    return reading


async def followed(mesh, request=None, **options):
    """Starts a request and waits until it has joined a run."""
    before = counted(mesh)
    reading = Reading(mesh, request, **options)

    async def joined():
        return counted(mesh) > before

    await eventually(joined)
    return reading


@pytest.fixture
def gate(mesh):
    """Holds the answer of l1 back until it is set."""
    event = asyncio.Event()
    first, *rest = answer_steps("one ", "two ", "三")
    mesh.engines["l1"].steps = [first, event, *rest]
    return event


async def test_identical_requests_share_one_run_and_each_has_its_own_label_and_end(mesh, gate):
    leader = await led(mesh)
    follower = await followed(mesh, metadata=OTHER)
    gate.set()
    first, second = await leader.answer(), await follower.answer()
    assert len(mesh.engines["l1"].requests) == 1
    assert first.kinds() == second.kinds() == ["route", "delta", "delta", "delta", "done"]
    assert first.text == second.text == "one two 三"
    assert (first.route.cache_status, first.headers["x-tiermesh-cache"]) == (router_pb2.CACHE_STATUS_MISS, "miss")
    assert (second.route.cache_status, second.headers["x-tiermesh-cache"]) == (COALESCED, "coalesced")
    assert (first.route.request_id, second.route.request_id) == ("req-1", "req-2")
    assert second.route.trace_id != first.route.trace_id
    assert second.route.reasons[0] == "cache:coalesced"
    assert (second.route.tier, second.route.model) == ("l1", "small")
    # Only the one for whom it was made has paid for it.
    assert first.last.done.usage.completion_token_count == 3
    assert second.last.done.usage == answer_pb2.Usage()
    assert not second.last.done.attempts
    hops = {hop.name: hop.outcome for hop in second.last.done.ledger.hops}
    assert hops == {"cache": "miss", "coalesced": "ok"}


async def test_the_ledger_of_a_follower_sums_to_its_total(mesh, gate):
    leader = await led(mesh)
    follower = await followed(mesh)
    gate.set()
    await leader.answer()
    ledger = (await follower.answer()).last.done.ledger
    parts = sum(getattr(ledger.parts, f.name).ToNanoseconds() for f in ledger.parts.DESCRIPTOR.fields)
    assert abs(parts - ledger.total.ToNanoseconds()) <= 5_000_000
    assert ledger.lane


async def test_a_late_follower_is_given_everything_while_the_run_still_goes_on(mesh):
    gate = asyncio.Event()
    mesh.engines["l1"].steps = [begun(), delta("one "), delta("two "), gate, *answer_steps("three")[1:]]
    leader = mesh.router.Generate(ask(), timeout=60, metadata=METADATA)
    for _ in range(3):
        await leader.read()
    follower = mesh.router.Generate(ask(), timeout=60, metadata=OTHER)
    seen = [await follower.read() for _ in range(3)]
    assert [event.WhichOneof("event") for event in seen] == ["route", "delta", "delta"]
    assert seen[0].route.cache_status == COALESCED
    assert "".join(event.delta.text for event in seen) == "one two "
    gate.set()
    for call in (leader, follower):
        rest = [await call.read() for _ in range(2)]
        assert [event.WhichOneof("event") for event in rest] == ["delta", "done"]
        assert await call.code() == grpc.StatusCode.OK


async def test_the_answer_is_stored_once(mesh, gate):
    leader, followers = await led(mesh), [await followed(mesh) for _ in range(3)]
    gate.set()
    for reading in (leader, *followers):
        assert (await reading.answer()).text == "one two 三"
    async with asyncio.timeout(60):
        await mesh.wired.stores.drain()
    assert len(mesh.cache.stores) == 1
    assert len(mesh.cache.lookups) == 1


@pytest.mark.parametrize("leaving", ["leader", "follower"])
async def test_one_that_leaves_does_not_end_it_for_the_other(mesh, gate, leaving):
    leader = await led(mesh)
    follower = await followed(mesh)
    gone, stays = (leader, follower) if leaving == "leader" else (follower, leader)
    await gone.leave()
    third = await followed(mesh)
    assert not mesh.engines["l1"].abandoned.is_set()
    gate.set()
    assert (await stays.answer()).text == (await third.answer()).text == "one two 三"
    assert len(mesh.engines["l1"].requests) == 1


async def test_the_last_one_that_leaves_frees_the_engine(mesh, gate):
    leader = await led(mesh)
    follower = await followed(mesh)
    await leader.leave()
    await follower.leave()
    async with asyncio.timeout(60):
        await mesh.engines["l1"].abandoned.wait()
    gate.set()
    assert (await mesh.generate()).route.cache_status == router_pb2.CACHE_STATUS_MISS
    assert len(mesh.engines["l1"].requests) == 2


async def fail_first(mesh, *steps, then):
    """Lets the first run take steps of its own; returns the leader, a follower, and the gate before its last step."""
    gate = asyncio.Event()
    mesh.engines["l1"].steps = [*steps[:-1], gate, steps[-1]]
    leader = await led(mesh)
    follower = await followed(mesh, metadata=OTHER)
    mesh.engines["l1"].steps = then
    return leader, follower, gate


async def test_a_failing_leader_promotes_its_follower(mesh):
    leader, follower, gate = await fail_first(mesh, begun(), InternalError("a defect"), then=answer_steps("whole"))
    gate.set()
    first, second = await leader.answer(), await follower.answer()
    assert first.error.reason == "INTERNAL"
    assert second.text == "whole"
    assert second.last.HasField("done")
    # Its own run, which it has paid for.
    assert second.route.cache_status == router_pb2.CACHE_STATUS_MISS
    assert second.route.request_id == "req-2"
    assert second.last.done.usage.completion_token_count == 1
    assert counted(mesh, "tiermesh.coalescing.promotions") == 1


async def test_a_promoted_run_goes_on_where_the_first_broke_off_if_it_says_the_same(mesh):
    broken = (begun(), delta("one "), delta("tw"), InternalError("a defect"))
    leader, follower, gate = await fail_first(mesh, *broken, then=answer_steps("one two ", "three"))
    gate.set()
    first, second = await leader.answer(), await follower.answer()
    assert first.kinds() == ["route", "delta", "delta", "failure"]
    assert second.text == "one two three"
    assert second.kinds()[-1] == "done"
    assert second.route.cache_status == COALESCED


async def test_a_promoted_run_that_says_something_else_is_never_joined_on(mesh):
    broken = (begun(), delta("one "), InternalError("a defect"))
    leader, follower, gate = await fail_first(mesh, *broken, then=answer_steps("another ", "answer"))
    gate.set()
    await leader.answer()
    second = await follower.answer()
    assert second.kinds() == ["route", "delta", "failure"]
    assert second.text == "one "
    assert second.last.failure.reason == StreamBroken.reason


async def test_a_request_that_is_wrong_for_one_is_wrong_for_all(mesh):
    leader, follower, gate = await fail_first(mesh, InvalidRequest("the template refuses it"), then=answer_steps("x"))
    gate.set()
    assert (await leader.answer()).error.reason == (await follower.answer()).error.reason == "INVALID_REQUEST"
    assert len(mesh.engines["l1"].requests) == 1


async def test_a_crowd_does_not_try_a_broken_mesh_one_by_one(mesh):
    gate = asyncio.Event()
    mesh.engines["l1"].steps = [gate, InternalError("a defect")]
    leader = await led(mesh)
    followers = [await followed(mesh) for _ in range(6)]
    gate.set()
    for reading in (leader, *followers):
        assert (await reading.answer()).error.reason == "INTERNAL"
    assert len(mesh.engines["l1"].requests) == 3


@pytest.mark.parametrize(
    ("request_", "metadata"),
    [
        (ask("What is a lake?"), OTHER),
        (ask(), (("x-tiermesh-tenant", "other"),)),
        (ask(), (*OTHER, ("cache-control", "no-cache"))),
        (ask(cache_mode=router_pb2.CACHE_MODE_OFF), OTHER),
        (ask(model="tier:l1"), OTHER),
        (ask(priority=chat_pb2.PRIORITY_BATCH), OTHER),
        (ask(sampling=chat_pb2.Sampling(seed=7)), OTHER),
        (ask(sampling=chat_pb2.Sampling(temperature=0.9)), OTHER),
    ],
)
async def test_what_is_not_the_same_or_may_not_be_shared_runs_by_itself(mesh, gate, request_, metadata):
    leader = await led(mesh)
    mesh.engines["l1"].steps = answer_steps("its own")
    other = await mesh.generate(request_, metadata=metadata)
    assert other.text == "its own"
    assert other.route.cache_status != COALESCED
    gate.set()
    assert (await leader.answer()).text == "one two 三"
    assert len(mesh.engines["l1"].requests) == 2


async def test_after_an_invalidation_a_new_run_begins_and_those_who_follow_the_old_one_keep_it(mesh, gate):
    leader = await led(mesh)
    follower = await followed(mesh, metadata=OTHER)
    mesh.cache.generation += 1
    mesh.engines["l1"].entered.clear()
    later_gate = asyncio.Event()
    mesh.engines["l1"].steps = [later_gate, *answer_steps("new")]
    later = await led(mesh)
    joins_later = await followed(mesh, metadata=OTHER)
    gate.set()
    assert (await leader.answer()).text == (await follower.answer()).text == "one two 三"
    # The old run's end takes nothing from the new one.
    joins_too = await followed(mesh)
    later_gate.set()
    answers = [await reading.answer() for reading in (later, joins_later, joins_too)]
    assert [answer.text for answer in answers] == ["new"] * 3
    assert [answer.route.cache_status == COALESCED for answer in answers] == [False, True, True]
    assert len(mesh.engines["l1"].requests) == 2
    async with asyncio.timeout(60):
        await mesh.wired.stores.drain()
    assert (await mesh.generate()).text == "new"


async def test_a_run_that_is_taken_up_after_an_invalidation_takes_in_nobody_new(mesh):
    leader, follower, gate = await fail_first(mesh, begun(), InternalError("a defect"), then=answer_steps("old"))
    again = asyncio.Event()
    mesh.engines["l1"].steps = [again, *answer_steps("old")]
    mesh.engines["l1"].entered.clear()
    gate.set()
    await leader.answer()
    async with asyncio.timeout(60):
        await mesh.engines["l1"].entered.wait()
    mesh.cache.generation += 1
    mesh.engines["l1"].steps = answer_steps("new")
    assert (await mesh.generate()).text == "new"
    again.set()
    assert (await follower.answer()).text == "old"


async def test_who_cannot_ask_whether_there_was_an_invalidation_shares_the_run(mesh, gate):
    leader = await led(mesh)
    mesh.cache.error = Unavailable("down")
    follower = await followed(mesh)
    gate.set()
    assert (await leader.answer()).text == (await follower.answer()).text == "one two 三"
    assert len(mesh.engines["l1"].requests) == 1


async def test_a_run_of_which_the_cache_said_nothing_is_not_joined_by_those_it_tells(mesh, gate):
    mesh.cache.error = Unavailable("down")
    leader = await led(mesh)
    mesh.cache.error = None
    mesh.engines["l1"].steps = answer_steps("its own")
    assert (await mesh.generate()).text == "its own"
    gate.set()
    assert (await leader.answer()).text == "one two 三"


async def test_it_can_be_turned_off():
    async with running_router(cache={"coalescing": False}) as mesh:
        gate = asyncio.Event()
        mesh.engines["l1"].steps = [gate, *answer_steps("held")]
        leader = await led(mesh)
        mesh.engines["l1"].steps = answer_steps("its own")
        assert (await mesh.generate()).text == "its own"
        gate.set()
        assert (await leader.answer()).text == "held"


async def test_a_cache_that_is_down_is_no_hindrance(mesh, gate):
    mesh.cache.error = Unavailable("down")
    leader = await led(mesh)
    follower = await followed(mesh)
    gate.set()
    assert (await leader.answer()).route.cache_status == router_pb2.CACHE_STATUS_UNAVAILABLE
    assert (await follower.answer()).text == "one two 三"


async def test_a_followers_span_links_to_the_leaders(mesh, gate):
    leader = await led(mesh)
    follower = await followed(mesh)
    gate.set()
    first, second = await leader.answer(), await follower.answer()

    async def span():
        found = [
            s
            for s in mesh.tracing.finished
            if s.name.endswith("RouterService/Generate") and s.attributes.get("tiermesh.cache") == "coalesced"
        ]
        return found[0] if found else None

    linked = await eventually(span)
    assert [format(link.context.trace_id, "032x") for link in linked.links] == [first.route.trace_id]
    assert format(linked.context.trace_id, "032x") == second.route.trace_id


async def test_an_escalation_is_shared_too(mesh):
    mesh.engines["l1"].steps = [Unavailable("down")]
    gate = asyncio.Event()
    mesh.engines["l2"].steps = [gate, *answer_steps("strong")]
    leader = await led(mesh, tier="l2")
    follower = await followed(mesh)
    gate.set()
    assert (await leader.answer()).text == (await follower.answer()).text == "strong"
    assert (len(mesh.engines["l1"].requests), len(mesh.engines["l2"].requests)) == (1, 1)


async def test_openai_streams_are_shared(mesh, gate):
    body = b'{"model": "auto", "stream": true, "messages": [{"role": "user", "content": "What is a river?"}]}'
    leader = await led(mesh)
    before = counted(mesh)
    chat = asyncio.ensure_future(mesh.chat(body, metadata=OTHER))

    async def joined():
        return counted(mesh) > before

    await eventually(joined)
    gate.set()
    await leader.answer()
    answer = await chat
    assert b'"content":"one "' in answer.body
    assert answer.body.endswith(b"data: [DONE]\n\n")
    assert answer.headers["x-tiermesh-cache"] == "coalesced"
