"""Composition root: the only module that knows which parts the router is made of."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

import grpc
from opentelemetry.metrics import Meter
from opentelemetry.trace import Tracer
from tiermesh.api.openai.v1 import openai_pb2_grpc
from tiermesh.api.router.v1 import router_pb2_grpc
from tiermesh.router import servicer as typed
from tiermesh.router.adapters.grpc_cache import GrpcCache
from tiermesh.router.adapters.grpc_classifier import GrpcClassifier
from tiermesh.router.adapters.grpc_engines import GrpcEnginePool
from tiermesh.router.adapters.grpc_loads import LoadFollower
from tiermesh.router.adapters.grpc_outcomes import GrpcOutcomeLog
from tiermesh.router.adapters.grpc_runs import GrpcRuns
from tiermesh.router.adapters.replica_directory import ReplicaDirectory
from tiermesh.router.caching.background import BackgroundReruns
from tiermesh.router.caching.store_queue import StoreQueue
from tiermesh.router.coalescing.neighbours import NeighbourRuns
from tiermesh.router.deciding import Deciding
from tiermesh.router.escalation.quota import EscalationQuota
from tiermesh.router.flow import RequestFlow
from tiermesh.router.generation import Generation
from tiermesh.router.learning.bandit import Bandit
from tiermesh.router.learning.learner import BanditLearner
from tiermesh.router.leeway import USUAL, Leeway
from tiermesh.router.openai import errors as openai_errors
from tiermesh.router.openai.servicer import OpenAIServicer
from tiermesh.router.outcomes.sender import OutcomeSender
from tiermesh.router.servicer import RouterServicer
from tiermesh.router.settings import Settings, Snapshot, make_snapshot
from tiermesh.router.telling.metrics import RequestMetrics
from tiermesh.router.tiers.breakers import Breakers
from tiermesh.router.tiers.estimates import TierEstimates
from tiermesh.router.tiers.health import TierHealth
from tiermesh.router.tiers.loads import TierLoads
from tiermesh.router.tiers.watch import TierWatch
from tiermesh.shared.clock import SYSTEM_CLOCK, Clock
from tiermesh.shared.config import ConfigError, TiermeshConfig, watch_config
from tiermesh.shared.endpoints import CACHE, CLASSIFIER, OUTCOMES, ROUTER, mesh_target
from tiermesh.shared.process import Process
from tiermesh.shared.rpc import Service, open_channel, open_server, serve_until_signal
from tiermesh.shared.telemetry import get_logger

_log = get_logger(__name__)

Connect = Callable[[str], grpc.aio.Channel]
"""Returns the channel to a cluster, by its name."""


@dataclass(frozen=True, slots=True)
class Wired:
    """The router, ready to be hosted."""

    services: tuple[Service, ...]
    stores: StoreQueue
    """To be drained before the channels are closed, after `reruns`, which add to them."""
    reruns: BackgroundReruns
    """To be drained on shutdown."""
    replicas: ReplicaDirectory
    """To be run beside the server."""
    loads: LoadFollower
    """To be run beside the server."""
    outcomes: OutcomeSender
    """To be run beside the server, and drained on shutdown."""
    learner: BanditLearner
    """To be run beside the server."""
    neighbours: NeighbourRuns
    """To be run beside the server, and drained on shutdown before that ends."""
    flow: RequestFlow
    """What the services serve."""


def wire(
    settings: Settings,
    *,
    connect: Connect,
    tracer: Tracer,
    clock: Clock = SYSTEM_CLOCK,
    meter: Meter | None = None,
    state: Path | None = None,
    leeway: Leeway = USUAL,
) -> Wired:
    """Puts the router together; opens nothing but channels, which connect on first use.

    Args:
        settings: The configuration that new requests take.
        connect: Returns the channel to a cluster.
        tracer: Records client spans.
        clock: Time.
        meter: Makes instruments; without one nothing is counted.
        state: Folder for what is learnt; None keeps it in memory alone.
        leeway: Bounds of what happens beside requests.
    """
    metrics = RequestMetrics(meter)
    cache = GrpcCache(connect(CACHE), tracer)
    stores = StoreQueue(cache, clock, metrics, call_s=leeway.store_s, drain_s=leeway.store_drain_s)
    reruns = BackgroundReruns(drain_s=leeway.rerun_drain_s)
    runs = GrpcRuns(connect(CACHE), tracer)
    neighbours = NeighbourRuns(runs, clock, publish_s=leeway.publish_s, lookup_s=leeway.lookup_s)
    outcome_log = GrpcOutcomeLog(lambda: connect(OUTCOMES), tracer)
    most_records = settings.current.config.outcomes.queue
    outcomes = OutcomeSender(outcome_log, clock, metrics, max_records=most_records, call_s=leeway.outcome_s)
    replicas = ReplicaDirectory(settings)
    quota = EscalationQuota(
        burst=settings.current.config.escalation.burst, routers=lambda: len(replicas.addresses(ROUTER))
    )
    health = TierHealth(clock, memory_s=leeway.failure_s)
    watch = TierWatch(health, TierLoads(clock), TierEstimates(clock), quota, Breakers(clock))
    metrics.watch_breakers(watch.breakers.open)
    bandit = Bandit()
    flow = RequestFlow(
        cache=cache,
        deciding=Deciding(GrpcClassifier(connect(CLASSIFIER), tracer), watch, bandit=bandit),
        generation=Generation(
            engines=GrpcEnginePool(connect, tracer), watch=watch, stores=stores, clock=clock, metrics=metrics
        ),
        watch=watch,
        clock=clock,
        metrics=metrics,
        reruns=reruns,
        outcomes=outcomes,
        neighbours=neighbours,
    )
    learner = BanditLearner(bandit, outcome_log, settings, clock, state=state)
    router = RouterServicer(flow, settings, clock, outcome_log)
    openai = OpenAIServicer(flow, settings, clock)
    services = (
        Service(typed.SERVICE, lambda server: router_pb2_grpc.add_RouterServiceServicer_to_server(router, server)),
        Service(
            openai_errors.SERVICE,
            lambda server: openai_pb2_grpc.add_OpenAIServiceServicer_to_server(openai, server),
        ),
    )
    loads = LoadFollower(settings, replicas, watch.loads, connect, tracer, clock)
    return Wired(services, stores, reruns, replicas, loads, outcomes, learner, neighbours, flow)


async def run(process: Process) -> None:
    """Serves until told to stop, then finishes what has begun."""
    config = process.config
    settings = Settings(read_snapshot(config, SYSTEM_CLOCK))
    async with AsyncExitStack() as stack:
        tracing = await stack.enter_async_context(process.open_tracing("tiermesh-router"))
        connect = await stack.enter_async_context(_open_channels(mesh_target(config)))
        meter = stack.enter_context(process.open_meter("tiermesh-router"))
        wired = wire(settings, connect=connect, tracer=tracing.tracer, meter=meter, state=process.state)
        async with open_server(
            wired.services,
            address=process.address,
            tls=process.server_tls(),
            tracing=tracing,
            # Calls without a deadline get the shorter default where they are read.
            default_deadline_s=config.deadlines.max_ms / 1000,
            trailers=openai_errors.openai_trailers,
        ) as server:
            following = asyncio.create_task(follow_config(settings, process.config_path, process.environ, SYSTEM_CLOCK))
            watching = [asyncio.create_task(one.run()) for one in (wired.replicas, wired.loads, wired.learner)]
            sending = asyncio.create_task(wired.outcomes.run())
            hearing = asyncio.create_task(
                wired.neighbours.run(enabled=lambda: shares_with_others(settings.current.config, wired.replicas))
            )
            await server.set_serving(True)
            _log.info("serving", address=process.address, config_version=settings.current.version)
            try:
                await serve_until_signal(server, drain_s=config.drain_s)
            finally:
                following.cancel()
                for task in watching:
                    task.cancel()
                await wired.reruns.drain()
                await wired.stores.drain()
                await wired.outcomes.drain()
                sending.cancel()
                await wired.neighbours.drain()
                hearing.cancel()


def shares_with_others(config: TiermeshConfig, replicas: ReplicaDirectory) -> bool:
    """Whether runs are to be shared with other routers: a router alone has nobody to tell, and saves the calls."""
    return config.cache.coalescing == "mesh" and len(replicas.addresses(ROUTER)) > 1


def read_snapshot(config: TiermeshConfig, clock: Clock) -> Snapshot:
    """Returns the snapshot of a configuration and of the rules file that it names."""
    try:
        rules = config.rules.read_bytes()
    except OSError:
        # The classifier reports missing rules; here they only count for the version.
        rules = b""
    return make_snapshot(config, rules=rules, loaded_at=clock.wall())


async def follow_config(settings: Settings, path: Path, environ: Mapping[str, str], clock: Clock) -> None:
    """Replaces the snapshot whenever the configuration changes; a wrong one changes nothing."""
    try:
        async for changed in watch_config(path, environ):
            if isinstance(changed, ConfigError):
                _log.warning("the changed configuration cannot be used; the last good one stays", error=str(changed))
                continue
            snapshot = read_snapshot(changed, clock)
            if snapshot.version != settings.current.version:
                settings.current = snapshot
                _log.info("configuration changed", config_version=snapshot.version)
    except Exception as error:
        # Requests can be served without: a folder that cannot be watched is no reason to stop.
        _log.error("the configuration is no longer followed; restart to read it again", exc_info=error)


@asynccontextmanager
async def _open_channels(target: str) -> AsyncIterator[Connect]:
    """Yields a function that opens one channel a cluster and keeps it; all are closed on leaving."""
    channels: dict[str, grpc.aio.Channel] = {}

    def connect(cluster: str) -> grpc.aio.Channel:
        if cluster not in channels:
            channels[cluster] = open_channel(target, authority=cluster)
        return channels[cluster]

    try:
        yield connect
    finally:
        for channel in channels.values():
            await channel.close()
