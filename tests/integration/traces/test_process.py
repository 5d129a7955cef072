"""The trace store as a process of its own."""

import asyncio

import pytest
from grpc_health.v1 import health_pb2, health_pb2_grpc
from harness.otlp import running_otlp
from harness.service import service_process
from tiermesh.api.trace.v1 import trace_pb2, trace_pb2_grpc
from tiermesh.shared.rpc import open_channel
from tiermesh.shared.telemetry import open_tracing

CONFIG = """
tenants: [{name: local, key_env: KEY}]
tiers: [{name: l0, backend: rules}]
network: {traces_port: %d}
"""


def start(folder, port, endpoint):
    return service_process("traces", folder, CONFIG % port, environ={"OTEL_EXPORTER_OTLP_ENDPOINT": endpoint})


async def test_spans_of_a_service_are_kept_and_forwarded(tmp_path, unused_tcp_port):
    async with (
        running_otlp() as collector,
        start(tmp_path, unused_tcp_port, collector.endpoint) as traces,
        open_channel(f"127.0.0.1:{unused_tcp_port}") as channel,
    ):
        health = health_pb2_grpc.HealthStub(channel)
        await health.Check(health_pb2.HealthCheckRequest(), timeout=60, wait_for_ready=True)
        async with open_tracing("tiermesh-x", instance="x-0", endpoint=f"http://127.0.0.1:{unused_tcp_port}") as t:
            with t.tracer.start_as_current_span("work") as span:
                trace_id = format(span.get_span_context().trace_id, "032x")
            await asyncio.to_thread(t.provider.force_flush)
        (forwarded,) = await collector.receiver.trace(trace_id, ["work"])
        assert forwarded.service == "tiermesh-x"
        stub = trace_pb2_grpc.TraceServiceStub(channel)
        (kept,) = (await stub.GetTrace(trace_pb2.GetTraceRequest(trace_id=trace_id))).spans
        assert kept.span_id == forwarded.span_id
        status, errors = await traces.terminated()
    assert status == 0
    assert "Traceback" not in errors


@pytest.mark.parametrize("endpoint", ["collector:4317", "ftp://collector"])
async def test_a_wrong_collector_is_named(tmp_path, unused_tcp_port, endpoint):
    async with start(tmp_path, unused_tcp_port, endpoint) as traces:
        status, errors = await traces.ended()
    assert status == 1
    assert "OTEL_EXPORTER_OTLP_ENDPOINT" in errors
    assert "Traceback" not in errors
