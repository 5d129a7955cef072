"""The cache as a process of its own."""

import pytest
from grpc_health.v1 import health_pb2, health_pb2_grpc
from harness.cache import RunningCache
from harness.eventually import eventually
from harness.redis import real_redis
from harness.service import service_process
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


def start(folder, port, url):
    return service_process("cache", folder, CONFIG, "--listen", f"127.0.0.1:{port}", environ={"REDIS_URL": url})


async def test_it_serves_while_redis_comes_and_goes_and_ends_on_sigterm(tmp_path, redis_server, unused_tcp_port):
    redis_server.kill()
    with recorded_tracing() as tracing:
        async with (
            start(tmp_path, unused_tcp_port, redis_server.url) as process,
            open_channel(f"127.0.0.1:{unused_tcp_port}") as channel,
        ):
            health = health_pb2_grpc.HealthStub(channel)
            await health.Check(health_pb2.HealthCheckRequest(), timeout=20, wait_for_ready=True)

            async def serving():
                checked = await health.Check(health_pb2.HealthCheckRequest())
                return checked.status == health_pb2.HealthCheckResponse.SERVING

            await eventually(serving)
            cache = RunningCache(cache_pb2_grpc.CacheServiceStub(channel), tracing, channel)
            assert await cache.result() == "STORE_UNAVAILABLE"
            redis_server.start()
            await eventually(cache.store)
            assert await cache.result() == "HIT_EXACT"
            status, errors = await process.terminated()
    assert status == 0
    assert "Traceback" not in errors
    assert errors.count("the answer store is down") <= 1


async def test_a_wrong_redis_url_is_named_and_not_shown(tmp_path, unused_tcp_port):
    async with start(tmp_path, unused_tcp_port, "http://:secret@nowhere") as process:
        status, errors = await process.ended()
    assert status == 1
    assert "REDIS_URL" in errors
    assert "secret" not in errors
    assert "Traceback" not in errors
