"""Two replicas of an engine behind a real Envoy: one reports load, one hangs, one is gone for a while."""

import asyncio
import signal
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from typing import Any

import pytest
import yaml
from harness.control_plane import running_control_plane
from harness.envoy import RunningEnvoy, mesh_config, running_envoy
from harness.eventually import eventually
from harness.orca import ReportedLoad
from harness.service import service_process
from tiermesh.api.common.v1 import chat_pb2
from tiermesh.api.engine.v1 import engine_pb2, engine_pb2_grpc
from tiermesh.shared.endpoints import engine_cluster, mesh_target, replica_endpoint
from tiermesh.shared.errors import Unavailable
from tiermesh.shared.rpc import RunningServer, open_channel, open_server
from tiermesh.shared.testing import ScriptedEngine, answer_steps, recorded_tracing

pytestmark = pytest.mark.envoy


@dataclass
class Replica:
    """One engine that does what it is told."""

    engine: ScriptedEngine
    load: ReportedLoad
    server: RunningServer

    @property
    def calls(self) -> int:
        return len(self.engine.requests)


@dataclass
class Pair:
    """Two replicas and a client of both."""

    envoy: RunningEnvoy
    replicas: list[Replica]
    stub: Any

    async def ask(self, timeout: float = 60.0) -> None:
        message = chat_pb2.Message(role=chat_pb2.ROLE_USER, content="hello")
        call = self.stub.Generate(engine_pb2.GenerateRequest(messages=[message]), timeout=timeout)
        events = [event async for event in call]
        assert events[-1].HasField("done")

    async def shares(self, count: int) -> tuple[int, int]:
        """Sends requests, and returns how many each replica got."""
        before = [replica.calls for replica in self.replicas]
        for _ in range(count):
            await self.ask()
        first, second = (replica.calls - was for replica, was in zip(self.replicas, before, strict=True))
        return first, second

    async def stuck(self) -> asyncio.Task[None]:
        """Asks one at a time until the first replica, which hangs, has one in hand; returns that one.

        The others are over before, so that the first replica is then the one with more in hand.
        """
        hanging = self.replicas[0]
        while True:
            before = hanging.calls
            asked = asyncio.create_task(self.ask(timeout=100))

            async def settled(before: int = before, asked: asyncio.Task[None] = asked) -> bool:
                return asked.done() or hanging.calls > before

            await eventually(settled)
            if hanging.calls > before:
                return asked
            await asked


@asynccontextmanager
async def pair(tmp_path, **tier):
    config = mesh_config(tmp_path, tiers=[{"name": "l1", "backend": "simulated", "replicas": 2, **tier}])
    async with AsyncExitStack() as stack:
        tracing = stack.enter_context(recorded_tracing())
        ending = asyncio.Event()
        stack.callback(ending.set)
        replicas = []
        for number in range(2):
            engine, load = ScriptedEngine(*answer_steps("a")), ReportedLoad(ending)
            address = str(replica_endpoint(config, engine_cluster("l1"), number))
            server = await stack.enter_async_context(
                open_server([engine.service(), load.service()], address=address, tracing=tracing, default_deadline_s=60)
            )
            await server.set_serving(True)
            replicas.append(Replica(engine, load, server))
        await stack.enter_async_context(running_control_plane(config))
        envoy = await stack.enter_async_context(running_envoy(config, tmp_path))
        await envoy.healthy("engine-l1", 2)
        channel = await stack.enter_async_context(open_channel(mesh_target(config), authority="engine-l1"))
        yield Pair(envoy, replicas, engine_pb2_grpc.EngineServiceStub(channel))
        ending.set()


async def test_traffic_shifts_away_from_the_replica_that_reports_load_and_comes_back(tmp_path):
    async with pair(tmp_path, balancing="load_reports") as two:
        first, second = two.replicas
        first.load.running, first.load.waiting = 4, 28

        async def shifted() -> bool:
            loaded, idle = await two.shares(30)
            return idle >= 4 * max(1, loaded)

        await eventually(shifted)
        first.load.running = first.load.waiting = 0

        async def even() -> bool:
            one, other = await two.shares(30)
            return abs(one - other) <= 4

        await eventually(even)
        # And stays so: it does not swing from one side to the other.
        for _ in range(5):
            assert min(await two.shares(40)) >= 10


async def test_by_default_nobody_asks_for_reports(tmp_path):
    async with pair(tmp_path) as two:
        await two.shares(10)
        assert [replica.load.reports for replica in two.replicas] == [0, 0]


async def test_a_replica_that_hangs_in_its_work_is_left_alone_and_used_again_when_it_recovers(tmp_path):
    async with pair(tmp_path) as two:
        bad, good = two.replicas
        gate = asyncio.Event()
        bad.engine.steps = [gate, *answer_steps("late")]
        stuck = await two.stuck()
        # Requests meanwhile go where the fewest are in hand: the other one.
        assert await two.shares(20) == (0, 20)
        await bad.server.set_serving(False)
        await two.envoy.healthy("engine-l1", 1)
        assert await two.shares(10) == (0, 10)
        # It recovers, and nobody has to do anything about it.
        gate.set()
        bad.engine.steps = answer_steps("a")
        await bad.server.set_serving(True)
        await stuck
        await two.envoy.healthy("engine-l1", 2)

        async def used() -> bool:
            return (await two.shares(10))[0] > 0

        await eventually(used)


async def test_a_replica_whose_device_failed_is_ejected_and_used_again_unaided(tmp_path):
    async with pair(tmp_path) as two:
        bad, good = two.replicas
        bad.engine.error = Unavailable("the device failed")

        async def ejections() -> tuple[int, int]:
            stats = "cluster.engine-l1.outlier_detection.ejections_"
            return await two.envoy.stat(f"{stats}active"), await two.envoy.stat(f"{stats}enforced_total")

        async def while_ejected() -> tuple[int, int] | None:
            # Each failure is tried again elsewhere, once, by Envoy.
            await two.ask()
            before = await ejections()
            shares = await two.shares(10)
            # It is called back after 2 s, which may be in the middle of the ten; then they say nothing.
            return shares if before[0] == 1 and await ejections() == before else None

        assert await eventually(while_ejected) == (0, 10)
        bad.engine.error = None

        async def used() -> bool:
            return (await two.shares(10))[0] > 0

        await eventually(used)


async def test_a_process_that_hangs_is_taken_out_and_used_again_when_it_goes_on(tmp_path):
    config = mesh_config(
        tmp_path,
        tiers=[
            {
                "name": "l1",
                "backend": "simulated",
                "replicas": 2,
                "simulated_ttft_ms": 1,
                "simulated_tokens_per_second": 5000,
            }
        ],
        # As shipped: it is to be noticed.
        health={"timeout_ms": 1000},
    )
    text = yaml.safe_dump(config.model_dump(mode="json"))
    async with AsyncExitStack() as stack:
        processes = [
            await stack.enter_async_context(
                service_process("engine", tmp_path, text, "--tier", "l1", "--replica", str(number))
            )
            for number in range(2)
        ]
        await stack.enter_async_context(running_control_plane(config))
        envoy = await stack.enter_async_context(running_envoy(config, tmp_path))
        await envoy.healthy("engine-l1", 2)
        channel = await stack.enter_async_context(open_channel(mesh_target(config), authority="engine-l1"))
        stub = engine_pb2_grpc.EngineServiceStub(channel)
        message = chat_pb2.Message(role=chat_pb2.ROLE_USER, content="hello")

        async def ask() -> None:
            call = stub.Generate(engine_pb2.GenerateRequest(messages=[message]), timeout=100)
            events = [event async for event in call]
            assert events[-1].HasField("done")

        hung = processes[0].process
        hung.send_signal(signal.SIGSTOP)
        stack.callback(lambda: hung.returncode is None and hung.send_signal(signal.SIGCONT))
        # Asked one at a time, one request meets the hung replica, which then has more in hand than the other.
        address = str(replica_endpoint(config, engine_cluster("l1"), 0))
        while True:
            asked = asyncio.create_task(ask())

            async def in_hand() -> bool:
                return f"engine-l1::{address}::rq_active::1" in (await envoy.admin("/clusters")).text

            async def settled(asked: asyncio.Task[None] = asked) -> bool:
                return asked.done() or await in_hand()

            await eventually(settled)
            if await in_hand():
                break
            await asked
        for _ in range(20):
            await ask()
        assert not asked.done()
        asked.cancel()
        await envoy.healthy("engine-l1", 1)
        for _ in range(20):
            await ask()
        hung.send_signal(signal.SIGCONT)
        await envoy.healthy("engine-l1", 2)
        for _ in range(20):
            await ask()
