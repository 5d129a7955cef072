"""Latency of exact lookups in the cache service: its real process, a real Redis, no Envoy.

Run: `python benchmarks/cache_exact.py`. Writes `benchmarks/out/cache_exact.json`.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import socket
import statistics
import sys
import tempfile
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import uvloop

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests"))

from grpc_health.v1 import health_pb2, health_pb2_grpc
from harness.answers import make_answer
from harness.cache import RunningCache
from harness.redis import real_redis
from tiermesh.api.cache.v1 import cache_pb2, cache_pb2_grpc
from tiermesh.shared.rpc import open_channel
from tiermesh.shared.telemetry import open_tracing

OUT = Path(__file__).parent / "out" / "cache_exact.json"
ENTRIES = 100
CONFIG = """
tenants: [{name: local, key_env: KEY}]
tiers: [{name: l0, backend: rules}]
drain_s: 0
"""


@asynccontextmanager
async def cache_process(redis_url: str) -> AsyncIterator[RunningCache]:
    """Runs the cache as the mesh does, with no trace store to send spans to."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{probe.getsockname()[1]}"
    with tempfile.TemporaryDirectory() as folder:
        config = Path(folder) / "mesh.yaml"
        config.write_text(CONFIG, encoding="utf-8")
        process = await asyncio.create_subprocess_exec(
            sys.executable,
            *("-m", "tiermesh.cache", "--config", str(config), "--listen", address, "--state", folder),
            env={**os.environ, "REDIS_URL": redis_url},
        )
        try:
            async with (
                open_channel(address) as channel,
                open_tracing("benchmark", instance="benchmark", endpoint=None) as tracing,
            ):
                health = health_pb2_grpc.HealthStub(channel)
                await health.Check(health_pb2.HealthCheckRequest(), timeout=20, wait_for_ready=True)
                yield RunningCache(cache_pb2_grpc.CacheServiceStub(channel), tracing, channel)
        finally:
            process.terminate()
            await process.wait()


async def measure(cache: RunningCache, *, calls: int, in_flight: int, hit: bool) -> dict[str, float]:
    """Returns p50 and p99 in ms, and lookups per second, of `calls` lookups."""
    times: list[float] = []
    unavailable = 0
    numbers = iter(range(calls))

    async def caller() -> None:
        nonlocal unavailable
        for n in numbers:
            began = time.perf_counter()
            found = await cache.lookup(f"{n % ENTRIES}" if hit else f"absent {n}")
            times.append(time.perf_counter() - began)
            unavailable += found.result == cache_pb2.CACHE_RESULT_STORE_UNAVAILABLE

    began = time.perf_counter()
    await asyncio.gather(*(caller() for _ in range(in_flight)))
    took = time.perf_counter() - began
    cuts = statistics.quantiles(times, n=100)
    return {
        "p50_ms": round(cuts[49] * 1000, 3),
        "p99_ms": round(cuts[98] * 1000, 3),
        "rps": round(calls / took),
        "store_unavailable": unavailable,
    }


async def run(calls: int) -> dict[str, dict[str, float]]:
    """Measures hits and misses at 1 and 32 in flight."""
    rows: dict[str, dict[str, float]] = {}
    with real_redis(max_memory_mb=64) as redis_server:
        async with cache_process(redis_server.url) as cache:
            for n in range(ENTRIES):
                await cache.store(str(n), make_answer(*(f"token {k} " for k in range(100))))
            await measure(cache, calls=200, in_flight=32, hit=True)
            for in_flight in (1, 32):
                for hit in (True, False):
                    name = f"{'hit' if hit else 'miss'}_{in_flight}"
                    rows[name] = await measure(cache, calls=calls, in_flight=in_flight, hit=hit)
    return rows


def main() -> None:
    """Measures, prints a table and writes the numbers."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--calls", type=int, default=2000, help="lookups a row (default: 2000)")
    rows = uvloop.run(run(parser.parse_args().calls))
    print(f"{'in flight':<10} {'p50 ms':>8} {'p99 ms':>8} {'per s':>8} {'unavailable':>12}")
    for name, row in rows.items():
        print(f"{name:<10} {row['p50_ms']:>8} {row['p99_ms']:>8} {row['rps']:>8} {row['store_unavailable']:>12}")
    OUT.parent.mkdir(parents=True, exist_ok=True)
    OUT.write_text(json.dumps(rows, indent=2) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
