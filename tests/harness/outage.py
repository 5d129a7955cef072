"""How many calls a request makes when nothing can answer it."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

import grpc
from harness.control_plane import running_control_plane
from harness.envoy import KEY, mesh_config, running_envoy
from tiermesh.client import AsyncClient, RetryTokens, TiermeshError
from tiermesh.router.app import wire
from tiermesh.router.settings import Settings, make_snapshot
from tiermesh.shared.endpoints import CACHE, CLASSIFIER, ROUTER, engine_cluster, mesh_target, replica_endpoint
from tiermesh.shared.errors import Unavailable
from tiermesh.shared.rpc import open_channel, open_server
from tiermesh.shared.testing import FakeCache, FakeClassifier, ScriptedEngine, recorded_tracing

REQUESTS = 100


class CountingTokens(RetryTokens):
    """Counts the retries that it allows."""

    taken = 0

    def take(self) -> bool:
        """Takes a token for a retry; tells whether there was one."""
        allowed = super().take()
        self.taken += allowed
        return allowed


async def calls_of_a_mesh_that_is_gone() -> float:
    """Returns the calls per request that the SDK makes, with its defaults, where nothing listens."""
    tokens = CountingTokens()
    # Nothing listens on port 1.
    async with AsyncClient("127.0.0.1:1", tokens=tokens) as client:
        ends = await asyncio.gather(*(client.ask("x", deadline_s=60) for _ in range(REQUESTS)), return_exceptions=True)
    _require(all(isinstance(end, Unavailable) for end in ends), ends)
    return (REQUESTS + tokens.taken) / REQUESTS


@dataclass
class DeadTiers:
    """A mesh whose engines answer every call with UNAVAILABLE."""

    target: str
    engines: dict[str, list[ScriptedEngine]]

    def calls(self) -> dict[str, int]:
        """Calls that each tier has had."""
        return {tier: sum(len(engine.requests) for engine in engines) for tier, engines in self.engines.items()}


@asynccontextmanager
async def dead_tiers(folder: Path, **sections: object) -> AsyncIterator[DeadTiers]:
    """Starts a real Envoy and a real router before engines that are down: L1 with two replicas, L2 with one.

    Args:
        folder: For the files of Envoy.
        sections: More of the configuration.
    """
    tier = {"backend": "simulated", "model": "toy"}
    config = mesh_config(folder, tiers=[{"name": "l1", "replicas": 2, **tier}, {"name": "l2", **tier}], **sections)
    async with AsyncExitStack() as stack:
        tracing = stack.enter_context(recorded_tracing())

        async def host(cluster: str, replica: int, services: object) -> None:
            address = str(replica_endpoint(config, cluster, replica))
            server = await stack.enter_async_context(
                open_server(services, address=address, tracing=tracing, default_deadline_s=60)
            )
            await server.set_serving(True)

        engines: dict[str, list[ScriptedEngine]] = {}
        for each in config.tiers:
            engines[each.name] = [ScriptedEngine() for _ in range(each.replicas)]
            for replica, engine in enumerate(engines[each.name]):
                engine.error = Unavailable("the device failed")
                await host(engine_cluster(each.name), replica, [engine.service()])
        await host(CLASSIFIER, 0, [FakeClassifier().service()])
        await host(CACHE, 0, [FakeCache().service()])
        channels: dict[str, grpc.aio.Channel] = {}

        def connect(cluster: str) -> grpc.aio.Channel:
            if cluster not in channels:
                channels[cluster] = open_channel(mesh_target(config), authority=cluster)
            return channels[cluster]

        async def close() -> None:
            for channel in channels.values():
                await channel.close()

        stack.push_async_callback(close)
        settings = Settings(make_snapshot(config, rules=b"", loaded_at=1.0))
        await host(ROUTER, 0, wire(settings, connect=connect, tracer=tracing.tracer).services)
        await stack.enter_async_context(running_control_plane(config))
        envoy = await stack.enter_async_context(running_envoy(config, folder))
        for cluster, count in ((ROUTER, 1), (CLASSIFIER, 1), ("engine-l1", 2), ("engine-l2", 1)):
            await envoy.healthy(cluster, count)
        yield DeadTiers(f"127.0.0.1:{config.network.ingress_port}", engines)


async def calls_of_dead_tiers(folder: Path) -> float:
    """Returns the calls per request that the tier which is called most gets, a hundred requests at a time."""
    async with dead_tiers(folder) as mesh, AsyncClient(mesh.target, api_key=KEY) as client:
        ends = await asyncio.gather(
            *(client.ask(f"question {n}", deadline_s=60, cache=False) for n in range(REQUESTS)), return_exceptions=True
        )
        _require(all(isinstance(end, Unavailable) for end in ends), ends)
        return max(mesh.calls().values()) / REQUESTS


def _require(right: bool, ends: list[object]) -> None:
    if not right:
        raise RuntimeError(
            f"not every request was told that the mesh is unavailable: {Counter(_said(end) for end in ends)}"
        )


def _said(end: object) -> str:
    return end.reason if isinstance(end, TiermeshError) else type(end).__name__
