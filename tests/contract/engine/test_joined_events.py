"""Events that are there together come in one message, for callers that can read it."""

import asyncio
from contextlib import asynccontextmanager

import grpc
from harness.engine import ScriptedBackend
from tiermesh.api.common.v1 import chat_pb2
from tiermesh.api.engine.v1 import engine_pb2, engine_pb2_grpc
from tiermesh.engine.app import wire
from tiermesh.engine.ports import Finish, Piece
from tiermesh.router.adapters.grpc_engines import GrpcEnginePool
from tiermesh.shared.budget import Budget
from tiermesh.shared.clock import SYSTEM_CLOCK
from tiermesh.shared.config import TierConfig
from tiermesh.shared.errors import DeviceFailed
from tiermesh.shared.rpc import open_channel, open_server
from tiermesh.shared.testing import recorded_tracing

TIER = TierConfig(name="l1", backend="simulated", model="toy", context_tokens=200, answer_tokens=60)
FIRST, LAST = Piece(0, "one ", 1, (1,)), Piece(0, "two", 1, (2,), finish=Finish.STOP)
TOGETHER = [["started", "delta", "delta", "done"]]


@asynccontextmanager
async def serving(*steps):
    backend = ScriptedBackend(*steps)
    engine, servicer = wire(TIER, clock=SYSTEM_CLOCK)
    engine.begin(backend)
    with recorded_tracing() as tracing:
        async with (
            open_server(
                [servicer.service()], address="127.0.0.1:0", tracing=tracing, default_deadline_s=60.0
            ) as server,
            open_channel(f"127.0.0.1:{server.port}") as channel,
        ):
            yield backend, channel, tracing.tracer


def question(*, joins_events=True):
    messages = [chat_pb2.Message(role=chat_pb2.ROLE_USER, content="hello")]
    return engine_pb2.GenerateRequest(request_id="r-1", messages=messages, joins_events=joins_events)


def call(channel, **options):
    return engine_pb2_grpc.EngineServiceStub(channel).Generate(question(**options), timeout=60)


def kinds(response):
    return [each.WhichOneof("event") for each in (response, *response.following)]


async def test_an_answer_that_is_there_at_once_is_one_message():
    async with serving(FIRST, LAST) as (_, channel, _):
        assert [kinds(response) async for response in call(channel)] == TOGETHER


async def test_a_caller_that_does_not_ask_for_it_gets_every_event_apart():
    async with serving(FIRST, LAST) as (_, channel, _):
        seen = [kinds(response) async for response in call(channel, joins_events=False)]
    assert seen == [[kind] for kind in TOGETHER[0]]


async def test_the_start_does_not_wait_for_the_first_text_nor_text_for_the_next():
    before, between = asyncio.Event(), asyncio.Event()
    async with serving(before, FIRST, between, LAST) as (_, channel, _):
        answer = call(channel)
        async with asyncio.timeout(60):
            assert kinds(await answer.read()) == ["started"]
            before.set()
            assert kinds(await answer.read()) == ["delta"]
            between.set()
            assert kinds(await answer.read()) == ["delta", "done"]
            assert await answer.read() is grpc.aio.EOF


async def test_a_failure_comes_with_what_was_there_and_the_status_agrees():
    async with serving(FIRST, DeviceFailed("gone")) as (_, channel, _):
        answer = call(channel)
        assert kinds(await answer.read()) == ["started", "delta", "failure"]
        assert await answer.code() == grpc.StatusCode.UNAVAILABLE


async def test_a_caller_who_leaves_frees_the_backend():
    async with serving(FIRST, asyncio.Event()) as (backend, channel, _):
        answer = call(channel)
        assert kinds(await answer.read()) == ["started", "delta"]
        answer.cancel()
        async with asyncio.timeout(60):
            await backend.abandoned.wait()


async def test_the_router_reads_every_event_apart():
    async with serving(FIRST, LAST) as (_, channel, tracer):
        pool = GrpcEnginePool(lambda _: channel, tracer)
        events = [event async for event in pool.generate("l1", question(), budget=Budget.of(60))]
    assert [event.WhichOneof("event") for event in events] == TOGETHER[0]
    assert [event.delta.text for event in events[1:3]] == ["one ", "two"]
    assert [event.HasField("load") for event in events] == [True, False, False, True]


async def test_a_router_that_leaves_frees_the_backend():
    async with serving(FIRST, asyncio.Event()) as (backend, channel, tracer):
        events = GrpcEnginePool(lambda _: channel, tracer).generate("l1", question(), budget=Budget.of(60))
        assert [(await anext(events)).WhichOneof("event") for _ in range(2)] == ["started", "delta"]
        await events.aclose()
        async with asyncio.timeout(60):
            await backend.abandoned.wait()
