"""Calls between services, through a real Envoy's mesh listener: routing, deadlines, retries, health."""

import asyncio
import time
from contextlib import asynccontextmanager

import grpc
import pytest
from harness.short_deadlines import until_one_arrives
from harness.stub_services import running_stub
from tiermesh.api.common.v1 import chat_pb2
from tiermesh.api.engine.v1 import engine_pb2, engine_pb2_grpc
from tiermesh.shared.endpoints import engine_cluster, mesh_target, replica_endpoint
from tiermesh.shared.rpc import open_channel

pytestmark = pytest.mark.envoy


def prompt(text="ok"):
    return engine_pb2.GenerateRequest(messages=[chat_pb2.Message(role=chat_pb2.ROLE_USER, content=text)])


@asynccontextmanager
async def engine_through(plane, authority="engine-l1"):
    async with open_channel(mesh_target(plane.config), authority=authority) as channel:
        yield engine_pb2_grpc.EngineServiceStub(channel)


async def answer(stub, text="ok", timeout=60):
    return [event.WhichOneof("event") async for event in stub.Generate(prompt(text), timeout=timeout)]


async def code_of(stub, text, timeout=60):
    with pytest.raises(grpc.aio.AioRpcError) as caught:
        await answer(stub, text, timeout)
    return caught.value.code()


async def test_the_authority_chooses_the_cluster(data_plane):
    async with data_plane() as plane:
        async with engine_through(plane) as stub:
            assert await answer(stub) == ["delta", "done"]
        assert plane.engine.seen.calls == ["ok"]
        # The stub at the router's place serves engines, too, so only routing tells them apart.
        async with engine_through(plane, "router") as stub:
            assert await answer(stub) == ["delta", "done"]
        assert plane.router.seen.calls == ["ok"]
        async with engine_through(plane, "nonesuch") as stub:
            assert await code_of(stub, "ok") is grpc.StatusCode.UNIMPLEMENTED
        async with engine_through(plane, "cache") as stub:
            assert await code_of(stub, "ok") is grpc.StatusCode.UNAVAILABLE


async def test_the_callers_deadline_arrives_and_is_kept(data_plane):
    async with data_plane() as plane, engine_through(plane) as stub:
        for text in ("hang-first", "hang"):
            plane.engine.seen.cancelled.clear()

            async def ask(deadline_s: float, text: str = text) -> grpc.StatusCode:
                return await code_of(stub, text, timeout=deadline_s)

            ended = await until_one_arrives(ask, plane.engine.seen.in_time)
            assert ended.result is grpc.StatusCode.DEADLINE_EXCEEDED
            assert ended.deadline_s - 0.05 < ended.took_s < ended.deadline_s + 10
            assert 0 < plane.engine.seen.remaining[-1] < ended.deadline_s + 0.01
            async with asyncio.timeout(60):
                await plane.engine.seen.cancelled.wait()


async def test_the_only_replica_is_not_asked_again_what_it_has_just_refused(data_plane):
    async with data_plane() as plane, engine_through(plane) as stub:
        plane.engine.engine.failures = 1
        assert await code_of(stub, "ok") is grpc.StatusCode.UNAVAILABLE
        assert len(plane.engine.seen.calls) == 1
        assert await answer(stub) == ["delta", "done"]


async def test_nothing_is_tried_again_after_the_first_byte(data_plane):
    async with data_plane() as plane, engine_through(plane) as stub:
        assert await code_of(stub, "late-unavailable") is grpc.StatusCode.UNAVAILABLE
        assert plane.engine.seen.calls == ["late-unavailable"]


async def test_unavailable_before_the_first_byte_is_tried_again_once_at_another_replica(data_plane):
    tiers = [{"name": "l1", "backend": "rules", "replicas": 2}]
    async with (
        data_plane(tiers=tiers) as plane,
        running_stub(replica_endpoint(plane.config, engine_cluster("l1"), 1)) as second,
    ):
        await plane.envoy.healthy("engine-l1", 2)
        plane.engine.engine.failures = 100
        async with engine_through(plane) as stub:
            for _ in range(4):
                assert await answer(stub) == ["delta", "done"]
            assert len(second.seen.calls) == 4
            second.engine.failures = 1
            calls = len(plane.engine.seen.calls)
            assert await code_of(stub, "ok") is grpc.StatusCode.UNAVAILABLE
            # Once each.
            assert (len(plane.engine.seen.calls), len(second.seen.calls)) == (calls + 1, 5)


async def test_a_replica_that_stops_serving_gets_no_more_calls(data_plane):
    tiers = [{"name": "l1", "backend": "rules", "replicas": 2}]
    async with (
        data_plane(tiers=tiers) as plane,
        running_stub(replica_endpoint(plane.config, engine_cluster("l1"), 1)) as second,
    ):
        await plane.envoy.healthy("engine-l1", 2)
        await plane.engine.server.set_serving(False)
        await plane.envoy.healthy("engine-l1", 1)
        async with engine_through(plane) as stub:
            for _ in range(6):
                assert await answer(stub) == ["delta", "done"]
        assert plane.engine.seen.calls == []
        assert len(second.seen.calls) == 6


async def test_endless_streams_have_no_limit(data_plane):
    deadlines = {"default_ms": 100, "max_ms": 200}
    async with data_plane(deadlines=deadlines) as plane, engine_through(plane) as stub:
        # An ordinary call without a deadline is cut at the longest one allowed.
        begun = time.monotonic()
        assert await code_of(stub, "hang", timeout=None) is not grpc.StatusCode.OK
        assert time.monotonic() - begun < 30
        page = (await plane.envoy.admin("/config_dump?resource=dynamic_route_configs")).json()
        text = str(page)
        assert "/tiermesh.api.engine.v1.EngineService/WatchLoad" in text


async def test_cancellation_reaches_the_engine(data_plane):
    async with data_plane() as plane, engine_through(plane) as stub:
        call = stub.Generate(prompt("hang"))
        await call.read()
        call.cancel()
        async with asyncio.timeout(60):
            await plane.engine.seen.cancelled.wait()
