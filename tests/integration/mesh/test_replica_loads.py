"""The router's idea of a tier's load is of all its replicas, each followed through a real Envoy."""

from contextlib import AsyncExitStack, asynccontextmanager

import grpc
import pytest
from harness.eventually import eventually
from harness.routed import routed_through
from tiermesh.api.engine.v1 import engine_pb2, engine_pb2_grpc
from tiermesh.shared.endpoints import engine_cluster, mesh_target, replica_endpoint
from tiermesh.shared.headers import replica_header
from tiermesh.shared.rpc import open_channel, open_server
from tiermesh.shared.testing import ScriptedEngine, recorded_tracing

pytestmark = pytest.mark.envoy

SECTIONS = {
    "tiers": [
        {"name": "l1", "backend": "rules", "max_complexity": 0.1},
        {"name": "l2", "backend": "simulated", "replicas": 3},
        {"name": "l3", "backend": "simulated"},
    ]
}


def busy(n):
    return engine_pb2.WatchLoadResponse(
        running_count=4, waiting_count=8, slot_count=4, queue_limit=64, instance=f"l2-{n}"
    )


def free(n):
    return engine_pb2.WatchLoadResponse(running_count=1, slot_count=4, queue_limit=64, instance=f"l2-{n}")


@asynccontextmanager
async def three_replicas(data_plane):
    """Starts Envoy, a tier of three engines that all have a backlog, and nothing else that matters."""
    async with data_plane(**SECTIONS) as plane, AsyncExitStack() as stack:
        engines, servers = [ScriptedEngine() for _ in range(3)], []
        tracing = stack.enter_context(recorded_tracing())
        for n, engine in enumerate(engines):
            engine.report_load(busy(n))
            address = str(replica_endpoint(plane.config, engine_cluster("l2"), n))
            server = open_server([engine.service()], address=address, tracing=tracing, default_deadline_s=60)
            servers.append(await stack.enter_async_context(server))
            await servers[-1].set_serving(True)
        await plane.envoy.healthy("engine-l2", 3)
        yield plane, engines, servers


async def test_a_call_goes_to_the_replica_that_it_names_or_nowhere(data_plane):
    async with (
        three_replicas(data_plane) as (plane, _, _),
        open_channel(mesh_target(plane.config), authority="engine-l2") as channel,
    ):
        stub = engine_pb2_grpc.EngineServiceStub(channel)

        async def first_report(address):
            call = stub.WatchLoad(engine_pb2.WatchLoadRequest(), timeout=60, metadata=[replica_header(address)])
            try:
                return (await anext(aiter(call))).instance
            finally:
                call.cancel()

        for n in (2, 2, 2, 0, 1, 1):
            assert await first_report(str(replica_endpoint(plane.config, "engine-l2", n))) == f"l2-{n}"
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            await first_report("127.0.0.1:9")
        assert caught.value.code() is grpc.StatusCode.UNAVAILABLE


async def test_a_tier_is_backlogged_only_when_every_replica_is(data_plane):
    async with (
        three_replicas(data_plane) as (plane, engines, servers),
        routed_through(plane, follow_loads=True) as mesh,
    ):

        async def goes_to(tier):
            async def gone():
                return (await mesh.explain()).tier == tier

            await eventually(gone)

        await goes_to("l3")
        assert list((await mesh.explain()).reasons)[-1] == "spilled:l2"
        # Every one of them is heard: whichever has room brings the requests back.
        for n, engine in enumerate(engines):
            engine.report_load(free(n))
            await goes_to("l2")
            engine.report_load(busy(n))
            await goes_to("l3")
        # What a replica said that has gone does not count for ever.
        engines[1].report_load(free(1))
        await goes_to("l2")
        await servers[1].drain(0)
        await goes_to("l3")
