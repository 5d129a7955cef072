"""The cache as a process of its own."""

import json
import os
import signal
import subprocess
import sys
from contextlib import AsyncExitStack

import pytest
from grpc_health.v1 import health_pb2, health_pb2_grpc
from harness.cache import RunningCache, confirmed
from harness.eventually import eventually
from harness.ports import free_port_base
from harness.semantic import answered, ask, name
from harness.service import service_process
from tiermesh.api.cache.v1 import cache_pb2_grpc
from tiermesh.cache.embedder_files import embedder_folder, is_fetched
from tiermesh.shared.rpc import open_channel
from tiermesh.shared.testing import recorded_tracing

CONFIG = """
tenants: [{name: local, key_env: KEY}]
tiers: [{name: l0, backend: rules}]
cache: {store_timeout_ms: 10000}
drain_s: 1
"""


def start(folder, port, url, **environ):
    return service_process(
        "cache", folder, CONFIG, "--listen", f"127.0.0.1:{port}", environ={"REDIS_URL": url, **environ}
    )


async def test_it_serves_while_redis_comes_and_goes_and_ends_on_sigterm(tmp_path, redis_server, unused_tcp_port):
    redis_server.kill()
    with recorded_tracing() as tracing:
        async with (
            start(tmp_path, unused_tcp_port, redis_server.url) as process,
            open_channel(f"127.0.0.1:{unused_tcp_port}") as channel,
        ):
            health = health_pb2_grpc.HealthStub(channel)
            await health.Check(health_pb2.HealthCheckRequest(), timeout=60, wait_for_ready=True)

            async def serving():
                checked = await health.Check(health_pb2.HealthCheckRequest())
                return checked.status == health_pb2.HealthCheckResponse.SERVING

            await eventually(serving)
            cache = RunningCache(cache_pb2_grpc.CacheServiceStub(channel), tracing, channel)
            assert await cache.result() == "STORE_UNAVAILABLE"
            redis_server.start()
            await eventually(cache.store)

            async def hit():
                return await cache.result() == "HIT_EXACT"

            await eventually(hit)
            status, errors = await process.terminated()
    assert status == 0
    assert "Traceback" not in errors
    # Once an outage, not once a request; a stall of the machine is one, too.
    assert errors.count("the answer store is down") <= errors.count("the answer store is back") + 1


async def test_a_wrong_redis_url_is_named_and_not_shown(tmp_path, unused_tcp_port):
    async with start(tmp_path, unused_tcp_port, "http://:secret@nowhere") as process:
        status, errors = await process.ended()
    assert status == 1
    assert "REDIS_URL" in errors
    assert "secret" not in errors
    assert "Traceback" not in errors


async def test_a_semantic_tier_without_its_model_serves_and_says_what_to_run(tmp_path, redis_server, unused_tcp_port):
    environ = {"TIERMESH__CACHE__SEMANTIC_ENABLED": "true", "XDG_CACHE_HOME": str(tmp_path)}
    with recorded_tracing() as tracing:
        async with (
            start(tmp_path, unused_tcp_port, redis_server.url, **environ) as process,
            open_channel(f"127.0.0.1:{unused_tcp_port}") as channel,
        ):
            health = health_pb2_grpc.HealthStub(channel)
            await health.Check(health_pb2.HealthCheckRequest(), timeout=60, wait_for_ready=True)
            cache = RunningCache(cache_pb2_grpc.CacheServiceStub(channel), tracing, channel)
            await eventually(lambda: answered(cache, "怎么取消订单"))

            async def learnt():
                return name(await ask(cache, "请问如何取消订单？")) == "HIT_SEMANTIC"

            await eventually(learnt)
            status, errors = await process.terminated()
    assert status == 0
    assert "python -m tiermesh.cache.fetch_embedder" in errors
    assert "Traceback" not in errors


fetched = pytest.mark.skipif(
    not is_fetched(embedder_folder(os.environ)), reason="run python -m tiermesh.cache.fetch_embedder"
)


@pytest.mark.parametrize(
    ("stored", "asked", "logged", "unsaid"),
    [
        pytest.param(
            "How do I send 40 euros to Anna Bell?",
            "What is the best way to send 40 euros to Anna Bell?",
            ["How do I send <number> euros to <name>?", "What is the best way to send <number> euros to <name>?"],
            ["Anna", "Bell", "40 euros"],
            marks=fetched,
        ),
        (
            "怎么把500元退给王小姐",
            "请问如何把500元退给王小姐？",
            ["怎么把<number>元<name>小姐", "请问如何把<number>元<name>小姐?"],
            ["500元", "王小姐"],
        ),
    ],
    ids=["en", "zh"],
)
async def test_shadow_mode_logs_what_it_would_have_answered_and_never_answers_it(
    tmp_path, redis_server, unused_tcp_port, stored, asked, logged, unsaid
):
    environ = {"TIERMESH__CACHE__SEMANTIC_ENABLED": "true", "TIERMESH__CACHE__SEMANTIC_SHADOW": "true"}
    with recorded_tracing() as tracing:
        async with (
            start(tmp_path, unused_tcp_port, redis_server.url, **environ) as process,
            open_channel(f"127.0.0.1:{unused_tcp_port}") as channel,
        ):
            health = health_pb2_grpc.HealthStub(channel)
            await health.Check(health_pb2.HealthCheckRequest(), timeout=60, wait_for_ready=True)
            cache = RunningCache(cache_pb2_grpc.CacheServiceStub(channel), tracing, channel)
            await eventually(lambda: answered(cache, stored))
            results = set()

            async def held_back():
                found = await ask(cache, asked)
                results.add((name(found), found.HasField("answer")))
                return found.refused_by == "shadow"

            await eventually(held_back)

            async def has_its_own_answer():
                return name(await ask(cache, stored)) == "HIT_EXACT"

            # The very same request has its answer all the same.
            await eventually(has_its_own_answer)
            status, errors = await process.terminated()
    assert status == 0
    # A stalled machine may add lookups for which there was no time.
    assert ("MISS", False) in results
    assert results <= {("MISS", False), ("STORE_UNAVAILABLE", False)}
    (line,) = [line for line in errors.splitlines() if "would have answered" in line]
    entry = json.loads(line)
    assert [entry["known"], entry["asked"]] == logged
    assert not [word for word in unsaid if word in errors]


def test_a_cache_without_a_semantic_tier_loads_none_of_its_packages():
    program = (
        "import sys, tiermesh.cache.app\n"
        "print([name for name in ('numpy', 'openvino', 'tokenizers', 'usearch', 'typer') if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


async def test_what_one_process_forgets_no_other_gives_even_one_that_was_held_up(tmp_path, redis_server):
    """The other one has the answer in its own memory, and does not run while it is forgotten."""
    port = free_port_base()
    with recorded_tracing() as tracing:
        async with AsyncExitStack() as stack:
            caches, processes = [], []
            for number in range(2):
                folder = tmp_path / str(number)
                folder.mkdir()
                processes.append(await stack.enter_async_context(start(folder, port + number, redis_server.url)))
                channel = await stack.enter_async_context(open_channel(f"127.0.0.1:{port + number}"))
                await health_pb2_grpc.HealthStub(channel).Check(
                    health_pb2.HealthCheckRequest(), timeout=60, wait_for_ready=True
                )
                caches.append(RunningCache(cache_pb2_grpc.CacheServiceStub(channel), tracing, channel))
            first, second = caches
            await eventually(first.store)

            def reads():
                with redis_server.client() as client:
                    return client.info("commandstats").get("cmdstat_mget", {}).get("calls", 0)

            async def in_memory():
                await second.result()
                before = reads()
                return await second.result() == "HIT_EXACT" and reads() == before

            await eventually(in_memory)
            processes[1].process.send_signal(signal.SIGSTOP)
            await eventually(lambda: confirmed(first.invalidate()))
            processes[1].process.send_signal(signal.SIGCONT)
            assert await second.result() != "HIT_EXACT"
            for _ in range(10):
                await eventually(first.store)
                await eventually(in_memory)
                await eventually(lambda: confirmed(first.invalidate()))
                assert await second.result() != "HIT_EXACT"
