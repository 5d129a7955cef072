"""Composition root of the trace store."""

from __future__ import annotations

import asyncio
import secrets
import socket
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager

from tiermesh.api.trace.v1 import trace_pb2, trace_pb2_grpc
from tiermesh.shared.config import TiermeshConfig
from tiermesh.shared.process import Process
from tiermesh.shared.rpc import Service, open_server, serve_until_signal
from tiermesh.shared.telemetry import get_logger, open_tracing
from tiermesh.traces.adapters.otlp_collector import open_otlp_collector
from tiermesh.traces.backlog import Backlog
from tiermesh.traces.collector import find_collector, is_myself
from tiermesh.traces.forwarder import Forwarder
from tiermesh.traces.receiver import FORWARDED_BY, OtlpReceiver, Outlet
from tiermesh.traces.servicer import TraceServicer
from tiermesh.traces.store import Bounds, TraceStore

_log = get_logger(__name__)
_DEADLINE_S = 30.0
_FLUSH_S = 1.0
_DRAIN_S = 1.0
"""Reading and receiving are instant; there is nothing to wait longer for."""


def wire(store: TraceStore, outlet: Outlet | None, *, identity: str) -> list[Service]:
    """Builds the services over a store; `outlet` takes what is to be forwarded."""
    servicer = TraceServicer(store)
    name = trace_pb2.DESCRIPTOR.services_by_name["TraceService"].full_name
    return [
        OtlpReceiver(store, outlet, identity=identity).service,
        Service(name, lambda server: trace_pb2_grpc.add_TraceServiceServicer_to_server(servicer, server)),
    ]


@asynccontextmanager
async def open_forwarder(
    config: TiermeshConfig, environ: Mapping[str, str], *, own_address: str, identity: str
) -> AsyncIterator[Forwarder | None]:
    """Forwards to the operator's collector until the block is left; None where there is no collector.

    Raises:
        ConfigError: the collector's address is wrong.
    """
    address = find_collector(config, environ)
    if address is not None and is_myself(address, own_address, hostname=socket.gethostname()):
        _log.warning("the collector configured is this trace store itself; nothing is forwarded")
        address = None
    if address is None:
        yield None
        return
    async with open_otlp_collector(address, metadata=((FORWARDED_BY, identity),)) as collector:
        forwarder = Forwarder(collector, Backlog())
        task = asyncio.create_task(forwarder.run())
        try:
            yield forwarder
        finally:
            await forwarder.flush(_FLUSH_S)
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)


async def run(process: Process) -> None:
    """Serves until the process is told to stop."""
    config = process.config
    identity = secrets.token_hex(8)
    store = TraceStore(Bounds(traces=config.tracing.kept_traces))
    async with (
        # Its own calls are no part of anybody's trace.
        open_tracing("tiermesh-traces", instance=process.instance, endpoint=None) as tracing,
        open_forwarder(config, process.environ, own_address=process.address, identity=identity) as forwarder,
        open_server(
            wire(store, forwarder, identity=identity),
            address=process.address,
            tracing=tracing,
            default_deadline_s=_DEADLINE_S,
            drain_s=_DRAIN_S,
        ) as server,
    ):
        await server.set_serving(True)
        _log.info("serving", address=process.address, forwarding=forwarder is not None)
        await serve_until_signal(server, drain_s=_DRAIN_S)
