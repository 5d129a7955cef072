"""The cache as a process of its own."""

import asyncio
import os
import signal
import sys

import pytest
from grpc_health.v1 import health_pb2, health_pb2_grpc
from harness.cache import RunningCache
from harness.eventually import eventually
from harness.redis import real_redis
from tiermesh.api.cache.v1 import cache_pb2_grpc
from tiermesh.shared.rpc import open_channel
from tiermesh.shared.testing import recorded_tracing

CONFIG = """
tenants: [{name: local, key_env: KEY}]
tiers: [{name: l0, backend: rules}]
cache: {store_timeout_ms: 1000}
drain_s: 1
"""


@pytest.fixture
def redis_server():
    with real_redis() as server:
        yield server


async def start(folder, port, environ):
    (folder / "mesh.yaml").write_text(CONFIG, encoding="utf-8")
    arguments = ("--config", str(folder / "mesh.yaml"), "--listen", f"127.0.0.1:{port}", "--state", str(folder))
    return await asyncio.create_subprocess_exec(
        sys.executable,
        *("-m", "tiermesh.cache", *arguments),
        env={**os.environ, **environ},
        stderr=asyncio.subprocess.PIPE,
    )


async def test_it_serves_while_redis_comes_and_goes_and_ends_on_sigterm(tmp_path, redis_server, unused_tcp_port):
    redis_server.kill()
    process = await start(tmp_path, unused_tcp_port, {"REDIS_URL": redis_server.url})
    with recorded_tracing() as tracing:
        async with open_channel(f"127.0.0.1:{unused_tcp_port}") as channel:
            health = health_pb2_grpc.HealthStub(channel)
            checked = await health.Check(health_pb2.HealthCheckRequest(), timeout=20, wait_for_ready=True)
            async with asyncio.timeout(20):
                while checked.status != health_pb2.HealthCheckResponse.SERVING:
                    checked = await health.Check(health_pb2.HealthCheckRequest())
            cache = RunningCache(cache_pb2_grpc.CacheServiceStub(channel), tracing, channel)
            assert await cache.result() == "STORE_UNAVAILABLE"
            redis_server.start()
            await eventually(cache.store)
            assert await cache.result() == "HIT_EXACT"
    process.send_signal(signal.SIGTERM)
    async with asyncio.timeout(10):
        _, errors = await process.communicate()
    assert process.returncode == 0
    assert b"Traceback" not in errors, errors.decode()
    assert errors.count(b"the answer store is down") <= 1


async def test_a_wrong_redis_url_is_named_and_not_shown(tmp_path, unused_tcp_port):
    process = await start(tmp_path, unused_tcp_port, {"REDIS_URL": "http://:secret@nowhere"})
    async with asyncio.timeout(20):
        _, errors = await process.communicate()
    assert process.returncode == 1
    assert b"REDIS_URL" in errors
    assert b"secret" not in errors
    assert b"Traceback" not in errors
