"""Follows how busy every tier is: one `WatchLoad` stream a replica, opened again whenever it ends.

A tier's load is that of all its replicas together, so every replica is followed, each through Envoy by its
address. Streams are never part of a trace: they would last for minutes and belong to no request.
"""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing

import grpc
from google.protobuf.duration_pb2 import Duration
from opentelemetry.trace import NonRecordingSpan, SpanContext, TraceFlags, Tracer, use_span
from tiermesh.api.engine.v1 import engine_pb2, engine_pb2_grpc
from tiermesh.router.ports import Replicas
from tiermesh.router.settings import Settings
from tiermesh.router.tiers.loads import TierLoad, TierLoads
from tiermesh.shared.budget import Budget
from tiermesh.shared.clock import Clock
from tiermesh.shared.endpoints import engine_cluster
from tiermesh.shared.errors import TiermeshError
from tiermesh.shared.headers import replica_header
from tiermesh.shared.rpc import call_stream
from tiermesh.shared.telemetry import get_logger

STREAM_S = 600.0
"""Seconds after which a stream is opened anew: it has a deadline, as every call."""
MIN_INTERVAL_MS = 100
_FIRST_PAUSE_S, _LONGEST_PAUSE_S = 0.25, 5.0
_LOOK_S = 1.0
_log = get_logger(__name__)


class LoadFollower:
    """Keeps `TierLoads` up to date, for whatever tiers the configuration names and whatever replicas they have.

    Args:
        settings: The configuration in force.
        replicas: Where replicas are.
        loads: Takes the reports.
        connect: Returns the channel to a cluster, by name.
        tracer: Of this process.
        clock: Time.
    """

    def __init__(
        self,
        settings: Settings,
        replicas: Replicas,
        loads: TierLoads,
        connect: Callable[[str], grpc.aio.Channel],
        tracer: Tracer,
        clock: Clock,
    ) -> None:
        self._settings = settings
        self._replicas = replicas
        self._loads = loads
        self._connect = connect
        self._tracer = tracer
        self._clock = clock

    async def run(self) -> None:
        """Follows until cancelled."""
        following: dict[tuple[str, str], asyncio.Task[None]] = {}
        try:
            while True:
                wanted = {
                    (tier.name, address)
                    for tier in self._settings.current.tiers
                    for address in self._replicas.addresses(engine_cluster(tier.name))
                }
                for place in wanted - following.keys():
                    following[place] = asyncio.create_task(self._follow(*place))
                for place in following.keys() - wanted:
                    following.pop(place).cancel()
                await asyncio.sleep(_LOOK_S)
        finally:
            for task in following.values():
                task.cancel()
            await asyncio.gather(*following.values(), return_exceptions=True)

    async def _follow(self, tier: str, address: str) -> None:
        stub = engine_pb2_grpc.EngineServiceStub(self._connect(engine_cluster(tier)))
        pause = _FIRST_PAUSE_S
        # An unsampled parent keeps the stream out of every trace, here and in the processes it goes through.
        nowhere = SpanContext(secrets.randbits(128), secrets.randbits(64), is_remote=False, trace_flags=TraceFlags(0))
        with use_span(NonRecordingSpan(nowhere), record_exception=False, set_status_on_exception=False):
            while True:
                name = address
                try:
                    async with aclosing(self._reports(stub, address)) as reports:
                        async for report in reports:
                            pause = _FIRST_PAUSE_S
                            # The same name as in the feedback of its answers.
                            name = report.instance or address
                            self._loads.report(tier, name, TierLoad.of(report))
                except TiermeshError as error:
                    # Gone, draining, or the stream's own end: all the same, it is opened again.
                    _log.debug("load reports ended", tier=tier, replica=address, reason=error.reason)
                finally:
                    self._loads.ended(tier, name)
                await asyncio.sleep(pause)
                pause = min(_LONGEST_PAUSE_S, pause * 2)

    def _reports(
        self, stub: engine_pb2_grpc.EngineServiceAsyncStub, address: str
    ) -> AsyncGenerator[engine_pb2.WatchLoadResponse, None]:
        return call_stream(
            stub.WatchLoad,
            engine_pb2.WatchLoadRequest(min_interval=Duration(nanos=MIN_INTERVAL_MS * 1_000_000)),
            name="EngineService/WatchLoad",
            budget=Budget.of(STREAM_S, self._clock),
            tracer=self._tracer,
            metadata=[replica_header(address)],
        )
