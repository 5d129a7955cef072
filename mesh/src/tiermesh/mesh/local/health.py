"""Asks each process whether it can do its work."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from typing import Any, Literal

import grpc
import httpx
from grpc_health.v1 import health_pb2, health_pb2_grpc
from tiermesh.mesh.local.processes import ProcessSpec
from tiermesh.shared.budget import Budget
from tiermesh.shared.config import TiermeshConfig
from tiermesh.shared.errors import BudgetExhausted

Health = Literal["down", "warming", "serving"]
"""`down`: does not answer. `warming`: answers, and is not ready. `serving`: ready."""

_PATIENCE_S = 2.0


class HealthChecker:
    """Asks processes for their health; keeps its connections open in between."""

    def __init__(self, config: TiermeshConfig, http: httpx.AsyncClient) -> None:
        self._admin = f"http://127.0.0.1:{config.network.admin_port}"
        self._http = http
        self._channels: dict[str, grpc.aio.Channel] = {}

    async def check(self, spec: ProcessSpec, *, is_up: bool) -> Health:
        """Returns the health of one process; `is_up` is what the supervisor says of it."""
        if not is_up:
            return "down"
        match spec.health:
            case "grpc":
                return await self._grpc(spec.address)
            case "envoy":
                return await self._envoy(spec.address)
            case "redis":
                return await _redis(spec.address)
            case "running":
                return "serving"

    async def check_all(self, specs: Iterable[ProcessSpec], up: set[str]) -> dict[str, Health]:
        """Returns the health of many processes by name, asked at the same time."""
        listed = list(specs)
        found = await asyncio.gather(*(self.check(spec, is_up=spec.name in up) for spec in listed))
        return {spec.name: health for spec, health in zip(listed, found, strict=True)}

    async def _grpc(self, address: str) -> Health:
        if address not in self._channels:
            self._channels[address] = grpc.aio.insecure_channel(
                address,
                options=[
                    ("grpc.initial_reconnect_backoff_ms", 50),
                    ("grpc.max_reconnect_backoff_ms", 500),
                    ("grpc.enable_http_proxy", 0),
                ],
            )
        stub: Any = health_pb2_grpc.HealthStub(self._channels[address])
        try:
            answer = await stub.Check(health_pb2.HealthCheckRequest(), timeout=_PATIENCE_S)
        except grpc.aio.AioRpcError:
            return "down"
        return "serving" if answer.status == health_pb2.HealthCheckResponse.SERVING else "warming"

    async def _envoy(self, ingress: str) -> Health:
        try:
            ready = await self._http.get(f"{self._admin}/ready")
        except httpx.HTTPError:
            return "down"
        if ready.status_code != 200:
            return "warming"
        # Without a control plane Envoy calls itself ready after a while, with no listener at all.
        return "serving" if await _connects(ingress) else "warming"

    async def close(self) -> None:
        """Closes every connection."""
        for channel in self._channels.values():
            await channel.close()


@asynccontextmanager
async def open_health_checker(config: TiermeshConfig) -> AsyncIterator[HealthChecker]:
    """Opens a health checker for the processes of a mesh."""
    # Proxies of the environment have no business on loopback.
    async with httpx.AsyncClient(trust_env=False, timeout=_PATIENCE_S) as http:
        checker = HealthChecker(config, http)
        try:
            yield checker
        finally:
            await checker.close()


async def _redis(address: str) -> Health:
    host, _, port = address.rpartition(":")
    try:
        async with Budget.of(_PATIENCE_S).limit("a ping of Redis"):
            reader, writer = await asyncio.open_connection(host, int(port))
            try:
                writer.write(b"PING\r\n")
                answer = await reader.readline()
            finally:
                writer.close()
    except (OSError, BudgetExhausted):
        return "down"
    return "serving" if answer.startswith(b"+PONG") else "warming"


async def _connects(address: str) -> bool:
    host, _, port = address.rpartition(":")
    try:
        async with Budget.of(_PATIENCE_S).limit("a connection"):
            _, writer = await asyncio.open_connection(host, int(port))
    except (OSError, BudgetExhausted):
        return False
    writer.close()
    return True
