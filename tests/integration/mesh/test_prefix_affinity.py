"""Prompts that begin alike go to one replica, through a real Envoy."""

import asyncio
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass

import pytest
from harness.control_plane import running_control_plane
from harness.envoy import RunningEnvoy, mesh_config, running_envoy
from harness.eventually import eventually
from opentelemetry.trace import NoOpTracer
from tiermesh.api.common.v1 import chat_pb2
from tiermesh.api.engine.v1 import engine_pb2
from tiermesh.router.adapters.grpc_engines import GrpcEnginePool
from tiermesh.shared.budget import Budget
from tiermesh.shared.endpoints import engine_cluster, mesh_target, replica_endpoint
from tiermesh.shared.rpc import RunningServer, open_channel, open_server
from tiermesh.shared.testing import ScriptedEngine, answer_steps, recorded_tracing

pytestmark = pytest.mark.envoy
QUESTIONS = [f"What is the {n}th river of the world? 第{n}条河流" for n in range(60)]


@dataclass
class Three:
    """Three replicas, and the router's own way to them."""

    envoy: RunningEnvoy
    engines: list[ScriptedEngine]
    servers: list[RunningServer]
    pool: GrpcEnginePool

    def stream(self, *contents: str):
        roles = (chat_pb2.ROLE_USER, chat_pb2.ROLE_ASSISTANT)
        messages = [chat_pb2.Message(role=roles[n % 2], content=text) for n, text in enumerate(contents)]
        return self.pool.generate("l1", engine_pb2.GenerateRequest(messages=messages), budget=Budget.of(60))

    async def ask(self, *contents: str) -> int:
        """Asks, and returns the number of the replica that answered."""
        before = [len(engine.requests) for engine in self.engines]
        async for _ in self.stream(*contents):
            pass
        (chosen,) = [n for n, engine in enumerate(self.engines) if len(engine.requests) > before[n]]
        return chosen


@asynccontextmanager
async def three(tmp_path):
    tiers = [{"name": "l1", "backend": "simulated", "replicas": 3, "balancing": "prefix_affinity"}]
    config = mesh_config(tmp_path, tiers=tiers)
    async with AsyncExitStack() as stack:
        tracing = stack.enter_context(recorded_tracing())
        engines, servers = [ScriptedEngine(*answer_steps("a")) for _ in range(3)], []
        for number, engine in enumerate(engines):
            address = str(replica_endpoint(config, engine_cluster("l1"), number))
            server = await stack.enter_async_context(
                open_server([engine.service()], address=address, tracing=tracing, default_deadline_s=60)
            )
            await server.set_serving(True)
            servers.append(server)
        await stack.enter_async_context(running_control_plane(config))
        envoy = await stack.enter_async_context(running_envoy(config, tmp_path))
        await envoy.healthy("engine-l1", 3)
        channel = await stack.enter_async_context(open_channel(mesh_target(config), authority="engine-l1"))
        yield Three(envoy, engines, servers, GrpcEnginePool(lambda _: channel, NoOpTracer()))


async def test_a_prefix_stays_with_its_replica_and_follow_up_turns_find_it(tmp_path):
    async with three(tmp_path) as mesh:
        first = [await mesh.ask(question) for question in QUESTIONS]
        assert len(set(first)) == 3, "all replicas have work"
        again = [await mesh.ask(question) for question in QUESTIONS]
        later = [await mesh.ask(question, "It is long.", "How long?") for question in QUESTIONS]
        assert first == again == later


async def test_a_replica_that_is_gone_moves_only_its_own_prefixes_and_gets_them_back(tmp_path):
    async with three(tmp_path) as mesh:
        before = [await mesh.ask(question) for question in QUESTIONS]
        gone = before[0]
        await mesh.servers[gone].set_serving(False)
        await mesh.envoy.healthy("engine-l1", 2)
        without = [await mesh.ask(question) for question in QUESTIONS]
        assert gone not in without
        others = [(was, now) for was, now in zip(before, without, strict=True) if was != gone]
        # Maglev promises "almost all"; none has been seen to move.
        assert sum(was != now for was, now in others) <= len(others) // 10
        await mesh.servers[gone].set_serving(True)
        await mesh.envoy.healthy("engine-l1", 3)
        assert [await mesh.ask(question) for question in QUESTIONS] == before


async def test_a_replica_with_too_much_in_hand_passes_prompts_on(tmp_path):
    async with three(tmp_path) as mesh:
        home = await mesh.ask(QUESTIONS[0])
        gate = asyncio.Event()
        for engine in mesh.engines:
            engine.steps = [gate, *answer_steps("late")]
            engine.requests.clear()

        async def read() -> None:
            async for _ in mesh.stream(QUESTIONS[0]):
                pass

        asked = []
        for count in range(1, 10):
            asked.append(asyncio.create_task(read()))

            async def arrived(count: int = count) -> bool:
                return sum(len(engine.requests) for engine in mesh.engines) == count

            await eventually(arrived)
        in_hand = [len(engine.requests) for engine in mesh.engines]
        # Nine requests, three on average: none has more than half as much again, rounded up, and the one that did it.
        assert max(in_hand) == in_hand[home] <= 6
        assert sum(count > 0 for count in in_hand) >= 2
        gate.set()
        await asyncio.gather(*asked)
        for engine in mesh.engines:
            engine.steps = answer_steps("a")
        assert await mesh.ask(QUESTIONS[0]) == home
