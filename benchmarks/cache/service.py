"""Runs the cache service, and measures lookups: in its handler, and at their caller on the other end of a connection."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import json
import os
import signal
import socket
import statistics
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil
import yaml
from grpc_health.v1 import health_pb2, health_pb2_grpc
from harness.cache import RunningCache
from tiermesh.api.cache.v1 import cache_pb2, cache_pb2_grpc
from tiermesh.shared.rpc import open_channel
from tiermesh.shared.telemetry import open_tracing

HERE = Path(__file__).parent
Row = dict[str, float]


@dataclass
class Service:
    """A cache in a process of its own."""

    cache: RunningCache
    process: asyncio.subprocess.Process
    times: Path

    def cpu_s(self) -> float:
        """Returns the CPU time that the process has taken, gRPC's part included."""
        used = psutil.Process(self.process.pid).cpu_times()
        return float(used.user + used.system)

    async def handler_times(self) -> list[float]:
        """Returns what lookups have taken in the handler since the last call, in seconds."""
        self.process.send_signal(signal.SIGUSR1)
        async with asyncio.timeout(60):
            while not self.times.exists():  # noqa: ASYNC110 -- a file of another process
                await asyncio.sleep(0.01)
        times: list[float] = json.loads(self.times.read_text())
        self.times.unlink()
        return times


@asynccontextmanager
async def running_service(redis_url: str, **cache: Any) -> AsyncIterator[Service]:
    """Runs the cache as the mesh does, with no trace store to send spans to.

    Args:
        redis_url: Its Redis.
        cache: Its section of the configuration.
    """
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{probe.getsockname()[1]}"
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        config = {
            "tenants": [{"name": "local", "key_env": "KEY"}],
            "tiers": [{"name": "l0", "backend": "rules"}],
            "drain_s": 0,
            "logging": {"level": "error"},
            "cache": cache,
        }
        (folder / "mesh.yaml").write_text(yaml.safe_dump(config), encoding="utf-8")
        times = folder / "times.json"
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, str(HERE / "timed_service.py"), "--times", str(times)),
            *("--config", str(folder / "mesh.yaml"), "--listen", address, "--state", name),
            env={**os.environ, "REDIS_URL": redis_url},
        )
        try:
            async with (
                open_channel(address) as channel,
                open_tracing("benchmark", instance="benchmark", endpoint=None) as tracing,
            ):
                health = health_pb2_grpc.HealthStub(channel)
                await health.Check(health_pb2.HealthCheckRequest(), timeout=60, wait_for_ready=True)
                yield Service(RunningCache(cache_pb2_grpc.CacheServiceStub(channel), tracing, channel), process, times)
        finally:
            with contextlib.suppress(ProcessLookupError):
                process.terminate()
            await process.wait()


async def measure(
    service: Service,
    make: Callable[[int], cache_pb2.LookupRequest],
    *,
    calls: int,
    in_flight: int = 1,
    expected: cache_pb2.CacheResult.ValueType | None = None,
) -> dict[str, Row]:
    """Returns p50 and p99 in ms and lookups per second, `in_service` and `at_caller`, and what one costs the service.

    Args:
        service: Who is asked.
        make: Makes a lookup from its number.
        calls: How many.
        in_flight: How many at once.
        expected: What every lookup must find; None where that may vary.

    Raises:
        RuntimeError: more than one in a hundred found something else.
    """
    requests = iter([make(n) for n in range(calls)])
    times: list[float] = []
    other = 0

    async def caller() -> None:
        nonlocal other
        for request in requests:
            began = time.perf_counter()
            found = await service.cache.call("Lookup", request)
            times.append(time.perf_counter() - began)
            other += expected is not None and found.result != expected

    await service.handler_times()
    gc.collect()
    cpu_began = service.cpu_s()
    began = time.perf_counter()
    await asyncio.gather(*(caller() for _ in range(in_flight)))
    took = time.perf_counter() - began
    cpu_us = round((service.cpu_s() - cpu_began) / calls * 1e6)
    if other > calls / 100:
        raise RuntimeError(f"{other} of {calls} lookups did not find {cache_pb2.CacheResult.Name(expected or 0)}")
    in_service = await service.handler_times()
    return {"in_service": shares(in_service, took), "at_caller": {**shares(times, took), "service_cpu_us": cpu_us}}


def shares(times: list[float], took_s: float) -> Row:
    """Returns p50 and p99 in ms, and how many there were a second."""
    cuts = statistics.quantiles(times, n=100)
    return {
        "p50_ms": round(cuts[49] * 1000, 3),
        "p99_ms": round(cuts[98] * 1000, 3),
        "rps": round(len(times) / took_s),
    }
