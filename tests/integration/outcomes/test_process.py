"""The log of outcomes as a process of its own: killed, restarted, drained."""

import signal
from contextlib import asynccontextmanager

import grpc
from grpc_health.v1 import health_pb2, health_pb2_grpc
from harness.eventually import eventually
from harness.outcomes import make_record
from harness.service import service_process
from tiermesh.api.outcome.v1 import outcome_pb2, outcome_pb2_grpc, record_pb2
from tiermesh.shared.rpc import open_channel

CONFIG = """
tenants: [{name: acme, key_env: KEY}]
tiers: [{name: l0, backend: rules}]
outcomes: {enabled: true%s}
drain_s: 1
"""


@asynccontextmanager
async def running(folder, port, settings=""):
    config = CONFIG % settings
    async with (
        service_process("outcomes", folder, config, "--listen", f"127.0.0.1:{port}") as process,
        open_channel(f"127.0.0.1:{port}") as channel,
    ):
        health = health_pb2_grpc.HealthStub(channel)

        async def serving():
            checked = await health.Check(health_pb2.HealthCheckRequest(), timeout=60, wait_for_ready=True)
            return checked.status == health_pb2.HealthCheckResponse.SERVING

        await eventually(serving)
        yield process, outcome_pb2_grpc.OutcomeServiceStub(channel)


async def listed(stub):
    found = []
    async for page in stub.ListOutcomes(outcome_pb2.ListOutcomesRequest(), timeout=60):
        found += page.outcomes
    return found


async def test_what_was_acknowledged_survives_a_kill_and_nothing_torn_is_read(tmp_path, unused_tcp_port):
    acknowledged = 0
    async with running(tmp_path, unused_tcp_port) as (process, stub):
        await stub.RecordOutcomes(outcome_pb2.RecordOutcomesRequest(outcomes=[make_record(0)]), timeout=60)
        opinion = record_pb2.Feedback(score=1.0)
        request = outcome_pb2.AddFeedbackRequest(tenant="acme", request_id="r0", feedback=opinion)
        assert (await stub.AddFeedback(request, timeout=60)).recorded
        try:
            for batch in range(1, 10_000):
                records = [make_record(batch * 10 + n) for n in range(10)]
                await stub.RecordOutcomes(outcome_pb2.RecordOutcomesRequest(outcomes=records), timeout=60)
                acknowledged = batch
                if batch == 20:
                    # From now on it dies at any moment, most likely while it writes.
                    process.process.send_signal(signal.SIGKILL)
        except grpc.aio.AioRpcError:
            pass
        assert (await process.ended())[0] == -signal.SIGKILL
    assert acknowledged >= 20
    async with running(tmp_path, unused_tcp_port) as (process, stub):
        found = await listed(stub)
        ids = [record.request_id for record in found]
        expected = ["r0", *(f"r{batch * 10 + n}" for batch in range(1, acknowledged + 1) for n in range(10))]
        assert ids[: len(expected)] == expected
        # A batch in flight may have been written without its caller hearing of it: whole, or not at all.
        assert len(ids) in {len(expected), len(expected) + 10}
        assert [f.score for f in found[0].feedback] == [1.0]
        assert all(record == make_record(int(record.request_id[1:])) for record in found[1:])
        status, errors = await process.terminated()
    assert status == 0
    assert "Traceback" not in errors
    assert "damaged" not in errors


async def test_a_wrong_reference_is_told_and_the_log_kept_all_the_same(tmp_path, unused_tcp_port):
    (tmp_path / "reference.json").write_text("{}", encoding="utf-8")
    async with running(tmp_path, unused_tcp_port, ", drift_reference: reference.json") as (process, stub):
        await stub.RecordOutcomes(outcome_pb2.RecordOutcomesRequest(outcomes=[make_record(1)]), timeout=60)
        assert len(await listed(stub)) == 1
        status, errors = await process.terminated()
    assert status == 0
    assert "drift is not measured" in errors
    assert "tiermesh drift reference" in errors
