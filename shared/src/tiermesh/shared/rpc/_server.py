"""Incoming calls: one server shape for every service, with health, reflection and graceful drain."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

import grpc
from grpc_health.v1 import health, health_pb2, health_pb2_grpc
from grpc_reflection.v1alpha import reflection
from tiermesh.shared.rpc._client import MAX_MESSAGE_BYTES
from tiermesh.shared.rpc._interceptors import CallInterceptor, Trailers
from tiermesh.shared.rpc._tls import ServerTls
from tiermesh.shared.telemetry import Tracing, get_logger

_log = get_logger(__name__)
_SERVING = health_pb2.HealthCheckResponse.SERVING
_NOT_SERVING = health_pb2.HealthCheckResponse.NOT_SERVING

_OPTIONS: tuple[tuple[str, Any], ...] = (
    # Two servers must not share a port in silence.
    ("grpc.so_reuseport", 0),
    ("grpc.max_receive_message_length", MAX_MESSAGE_BYTES),
    ("grpc.max_send_message_length", MAX_MESSAGE_BYTES),
    ("grpc.http2.min_ping_interval_without_data_ms", 5_000),
    ("grpc.keepalive_permit_without_calls", 1),
)

_LINGER_S = 0.6
"""A little longer than the interval of Envoy's health checks."""


@dataclass(frozen=True, slots=True)
class Service:
    """A gRPC service to host."""

    name: str
    """Full name, from the descriptor: `DESCRIPTOR.services_by_name["X"].full_name`."""
    register: Callable[[grpc.aio.Server], None]


class RunningServer:
    """A server that listens. It reports NOT_SERVING until `set_serving(True)`."""

    def __init__(
        self, server: grpc.aio.Server, checks: health.aio.HealthServicer, names: Sequence[str], port: int
    ) -> None:
        self._server = server
        self._checks = checks
        self._names = ("", *names)
        self.port = port
        """TCP port, useful where 0 was asked for."""
        self.draining = asyncio.Event()
        """Set when a drain begins: streams that would never end by themselves end then."""

    async def set_serving(self, serving: bool) -> None:
        """Sets what the standard health service reports for every hosted service."""
        for name in self._names:
            await self._checks.set(name, _SERVING if serving else _NOT_SERVING)

    async def drain(self, grace_s: float) -> None:
        """Reports NOT_SERVING, refuses new calls, and lets those in flight finish for at most `grace_s`.

        Calls are still taken for a moment after NOT_SERVING, until Envoy's health check has seen it: one that
        arrived while the server stops would end in CANCELLED, which nobody tries again.
        """
        self.draining.set()
        await self.set_serving(False)
        await asyncio.sleep(min(_LINGER_S, grace_s / 10))
        await self._server.stop(grace_s)


@asynccontextmanager
async def open_server(
    services: Sequence[Service],
    *,
    address: str,
    tracing: Tracing,
    default_deadline_s: float,
    trailers: Trailers | None = None,
    drain_s: float = 0.0,
    tls: ServerTls | None = None,
) -> AsyncIterator[RunningServer]:
    """Listens on `address` (`host:port`) until the block is left, then drains for `drain_s`.

    Args:
        services: What to host. Health and reflection are added.
        address: Where to listen; port 0 takes a free one.
        tracing: Records server spans.
        default_deadline_s: Longest budget of a call, and that of calls without a deadline.
        trailers: Extra trailing metadata of failed calls.
        drain_s: Longest wait for calls in flight on leaving.
        tls: Makes the server take mutual TLS alone, from whom it names. None: plain HTTP/2, from everyone.

    Raises:
        OSError: the address is taken.
    """
    calls = CallInterceptor(
        tracing.tracer,
        default_seconds=default_deadline_s,
        trailers=trailers,
        admit=tls.admit if tls is not None else None,
    )
    server = grpc.aio.server(interceptors=[calls], options=_OPTIONS)
    names = [service.name for service in services]
    for service in services:
        service.register(server)
    checks = health.aio.HealthServicer()
    health_pb2_grpc.add_HealthServicer_to_server(checks, server)
    reflection.enable_server_reflection([*names, health.SERVICE_NAME, reflection.SERVICE_NAME], server)
    port = _listen(server, address, tls)
    running = RunningServer(server, checks, names, port)
    await running.set_serving(False)
    async with _probed(checks, tls.probe_address if tls is not None else None):
        await server.start()
        try:
            yield running
        finally:
            await running.drain(drain_s)


@asynccontextmanager
async def _probed(checks: health.aio.HealthServicer, address: str | None) -> AsyncIterator[None]:
    """Answers health checks on a plain port of its own, where one is wanted."""
    if address is None:
        yield
        return
    server = grpc.aio.server(options=_OPTIONS)
    health_pb2_grpc.add_HealthServicer_to_server(checks, server)
    _listen(server, address, None)
    await server.start()
    try:
        yield
    finally:
        await server.stop(0)


def _listen(server: grpc.aio.Server, address: str, tls: ServerTls | None) -> int:
    try:
        if tls is None:
            return server.add_insecure_port(address)
        return server.add_secure_port(address, tls.credentials())
    except RuntimeError as error:
        raise OSError(
            f"cannot listen on {address}: the port is taken or not allowed; choose another in the configuration"
        ) from error


async def serve_until_signal(server: RunningServer, *, drain_s: float, tasks: Sequence[asyncio.Task[Any]] = ()) -> None:
    """Serves until SIGTERM or SIGINT, or until one of `tasks` ends, then drains.

    Raises:
        Exception: what a task ended with.
    """
    loop = asyncio.get_running_loop()
    stopped = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stopped.set)
    waiter = asyncio.ensure_future(stopped.wait())
    done, _ = await asyncio.wait({waiter, *tasks}, return_when=asyncio.FIRST_COMPLETED)
    waiter.cancel()
    _log.info("draining", grace_s=drain_s)
    await server.drain(drain_s)
    for task in done - {waiter}:
        task.result()
