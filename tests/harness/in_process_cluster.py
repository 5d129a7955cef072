"""A mesh in this process, as scenarios see it: the services are real, Envoy, Redis and the model are not.

    callers ─► link ─► door ─┬─► link ─► router 0 ─┬─► link ─► classifier
              (envoy)        └─► link ─► router 1  ├─► link ─► cache ─► a store in memory (redis)
                                                   ├─► link ─► engine l0, l2
                                                   └─► link ─► door ─┬─► link ─► engine l1, replica 0
                                                      (envoy)        └─► link ─► engine l1, replica 1

A fault is done to links: connections reset and refused (kill), nothing let through (hang), everything held back for a
while in each direction (slow; an engine's model also writes at a tenth of its pace).
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path

import grpc
from harness.front_door import open_door
from harness.link import Link, open_link
from harness.ports import free_port_base
from harness.scenario_load import Ask, Plan, Questions, by_http_body, by_sdk
from harness.scenarios import DOOR, Fault, Timing
from tiermesh.cache.app import wire as wire_cache
from tiermesh.classifier.app import wire as wire_classifier
from tiermesh.client import AsyncClient
from tiermesh.engine.adapters.simulated import Pace, SimulatedBackend
from tiermesh.engine.app import open_backend
from tiermesh.engine.app import wire as wire_engine
from tiermesh.router.app import wire as wire_router
from tiermesh.router.settings import Settings, make_snapshot
from tiermesh.shared.clock import SYSTEM_CLOCK
from tiermesh.shared.config import TierConfig, TiermeshConfig, load_config
from tiermesh.shared.endpoints import CACHE, CLASSIFIER, ROUTER, engine_cluster
from tiermesh.shared.rpc import Service, open_channel, open_server
from tiermesh.shared.rules import CurrentRules, load_rules
from tiermesh.shared.telemetry import Tracing
from tiermesh.shared.testing import FakeAnswerStore, recorded_tracing

TENANT = "local"
_PROFILE = Path(__file__).resolve().parents[2] / "mesh" / "profiles" / "lite.yaml"
_TTFT_MS, _TOKENS_PER_SECOND, _SLOWER = 5, 800, 10
_GONE_S = 0.1
"""How long a killed process is gone: nobody starts it again here."""
_DELAY_S = 0.01
"""Held back per direction where a process is slow: ten times the 2 ms of a call within this process."""


class _Store(FakeAnswerStore):
    """A store that can also be slow."""

    delay_s = 0.0

    async def _turn(self) -> None:
        if self.delay_s:
            await asyncio.sleep(self.delay_s)
        await super()._turn()


def in_process_config() -> TiermeshConfig:
    """Returns the lite profile with two routers, two replicas of L1, and models that are fast."""
    config = load_config(_PROFILE, {})
    pace = {"simulated_ttft_ms": _TTFT_MS, "simulated_tokens_per_second": _TOKENS_PER_SECOND}
    tiers = [
        tier.model_copy(update=pace | ({"replicas": 2} if tier.name == "l1" else {}))
        if tier.backend == "simulated"
        else tier
        for tier in config.tiers
    ]
    outcomes = config.outcomes.model_copy(update={"enabled": False})
    return config.model_copy(update={"tiers": tuple(tiers), "outcomes": outcomes})


class InProcessCluster:
    """A `Cluster` of services in this process; open it with `open_cluster`."""

    label = "in-process"
    targets = (
        *("engine-l0", "engine-l1 (one of two)", "engine-l2"),
        *("router (one of two)", "classifier", "cache", "redis", DOOR),
    )
    timing = Timing(
        deadline_s=0.4, recovered_deadline_s=30.0, warm_s=0.15, fault_s=0.5, right_again=6, recovery_limit_s=60.0
    )

    def __init__(self, config: TiermeshConfig) -> None:
        self.config = config
        self._links: dict[str, list[Link]] = {}
        """What carries the bytes of each target, and of the other replicas."""
        self._backends: dict[str, SimulatedBackend] = {}
        self._store = _Store(SYSTEM_CLOCK)
        self._ports = free_port_base()

    async def open(self, stack: AsyncExitStack) -> None:
        """Starts everything; the stack stops it."""
        tracing = stack.enter_context(recorded_tracing())
        config = self.config

        async def host(target: str, services: Sequence[Service]) -> int:
            server = await stack.enter_async_context(
                open_server(services, address="127.0.0.1:0", tracing=tracing, default_deadline_s=60)
            )
            await server.set_serving(True)
            return await self._link(stack, target, server.port)

        rules = CurrentRules(load_rules(config.rules))
        clusters = {
            CLASSIFIER: await host("classifier", [wire_classifier(rules)]),
            CACHE: await host("cache", [await stack.enter_async_context(wire_cache(config, self._store))]),
        }
        for tier in config.tiers:
            ports = []
            for replica in range(tier.replicas):
                name = engine_cluster(tier.name)
                target = name if tier.replicas == 1 else _one_of_two(name) if replica == 0 else f"the other {name}"
                ports.append(await host(target, [await self._engine(stack, tier, target)]))
            clusters[engine_cluster(tier.name)] = (
                ports[0] if len(ports) == 1 else await self._door(stack, ports, tenant=None)
            )
        routers = [
            await host(name, self._router(stack, tracing, clusters))
            for name in (_one_of_two(ROUTER), "the other router")
        ]
        self.target = f"127.0.0.1:{await self._door(stack, routers, tenant=TENANT)}"

    async def _link(self, stack: AsyncExitStack, target: str, to: int) -> int:
        self._ports += 1
        link = await stack.enter_async_context(open_link(self._ports, to=to))
        self._links.setdefault(target, []).append(link)
        return link.port

    async def _door(self, stack: AsyncExitStack, ports: Sequence[int], *, tenant: str | None) -> int:
        return await self._link(stack, DOOR, await stack.enter_async_context(open_door(ports, tenant=tenant)))

    async def _engine(self, stack: AsyncExitStack, tier: TierConfig, target: str) -> Service:
        engine, servicer = wire_engine(tier, clock=SYSTEM_CLOCK)
        backend = await stack.enter_async_context(
            open_backend(tier, rules_path=self.config.rules, environ={}, clock=SYSTEM_CLOCK)
        )
        if isinstance(backend, SimulatedBackend):
            self._backends[target] = backend
        engine.begin(backend)
        stack.callback(servicer.end_watches)
        return servicer.service()

    def _router(self, stack: AsyncExitStack, tracing: Tracing, clusters: dict[str, int]) -> Sequence[Service]:
        channels: dict[str, grpc.aio.Channel] = {}

        def connect(cluster: str) -> grpc.aio.Channel:
            if cluster not in channels:
                channels[cluster] = open_channel(f"127.0.0.1:{clusters[cluster]}", authority=cluster)
            return channels[cluster]

        settings = Settings(make_snapshot(self.config, rules=b"", loaded_at=1.0))
        wired = wire_router(settings, connect=connect, tracer=tracing.tracer)

        async def close() -> None:
            await wired.reruns.drain()
            await wired.stores.drain()
            for channel in channels.values():
                await channel.close()

        stack.push_async_callback(close)
        return wired.services

    @asynccontextmanager
    async def callers(self, *, door_hit: bool) -> AsyncIterator[Sequence[tuple[Ask, Plan]]]:
        """Opens two callers with the SDK, and one that asks as Envoy's transcoder does: all share one thread with the mesh."""
        del door_hit  # gRPC callers keep their own deadline whoever is silent
        async with AsyncClient(self.target) as sdk, open_channel(self.target) as channel:
            yield [
                (by_sdk(sdk), ("l1", "auto")),
                (by_sdk(sdk), ("l2", "hello", "cached")),
                (by_http_body(channel, ()), ("l1", "l2", "cached", "auto")),
            ]

    async def questions(self) -> Questions:
        """Returns the maker of questions."""
        async with AsyncClient(self.target) as client:
            greeting = (await client.ask("Hello", model="tier:l0", cache=False, deadline_s=10)).text
        return Questions(self.config.tiers, greeting)

    async def strike(self, fault: Fault, target: str) -> float | None:
        """Does the fault to the target's links, or to the store.

        Raises:
            KeyError: `stop`, which only processes can be told.
        """
        await {"kill": self._kill, "hang": self._hang, "slow": self._slow}[fault](target)
        try:
            await asyncio.sleep(_GONE_S if fault == "kill" else self.timing.fault_s)
        finally:
            await self._mend(target)
        return float(_SLOWER) if fault == "slow" else None

    async def _kill(self, target: str) -> None:
        self._store.down = target == "redis"
        for link in self._links.get(target, ()):
            await link.cut()

    async def _hang(self, target: str) -> None:
        if target == "redis":
            self._store.answering.clear()
        for link in self._links.get(target, ()):
            link.hang()

    async def _slow(self, target: str) -> None:
        if target == "redis":
            self._store.delay_s = _DELAY_S
        if target in self._backends:
            self._backends[target]._pace = Pace(_TTFT_MS * _SLOWER / 1000, _TOKENS_PER_SECOND / _SLOWER)
        for link in self._links.get(target, ()):
            link.slow(_DELAY_S)

    async def _mend(self, target: str) -> None:
        self._store.down, self._store.delay_s = False, 0.0
        self._store.answering.set()
        if target in self._backends:
            self._backends[target]._pace = Pace(_TTFT_MS / 1000, _TOKENS_PER_SECOND)
        for link in self._links.get(target, ()):
            await link.mend()

    async def back(self, target: str) -> None:
        """It is, as soon as it has been mended."""


def _one_of_two(name: str) -> str:
    return f"{name} (one of two)"


@asynccontextmanager
async def open_cluster() -> AsyncIterator[InProcessCluster]:
    """Starts a mesh in this process."""
    async with AsyncExitStack() as stack:
        cluster = InProcessCluster(in_process_config())
        await cluster.open(stack)
        yield cluster
