"""Circuit breakers by priority: a real router before a real Envoy, and engines that hold what they get."""

import asyncio

import pytest
from harness.eventually import eventually
from harness.routed import rest, routed_through
from harness.stub_services import running_stub
from tiermesh.api.common.v1 import chat_pb2
from tiermesh.shared.endpoints import engine_cluster, replica_endpoint
from tiermesh.shared.errors import BreakerOpen

pytestmark = pytest.mark.envoy

BATCH = chat_pb2.PRIORITY_BATCH
SECTIONS = {
    "tiers": [
        {"name": "l1", "backend": "simulated", "interactive_requests": 3, "batch_requests": 1},
        {"name": "l2", "backend": "simulated", "context_tokens": 4096},
    ],
    # What is tested is what Envoy refuses, not what the router thinks of an answer.
    "escalation": {"enabled": False},
}


async def breaker_open(mesh, tier, **fields):
    route = await mesh.explain(**fields)
    return {verdict.tier: verdict.breaker_open for verdict in route.verdicts}[tier]


async def test_batch_is_refused_first_then_interactive_moves_on_and_both_close_again(data_plane):
    async with (
        data_plane(**SECTIONS) as plane,
        running_stub(replica_endpoint(plane.config, engine_cluster("l2"), 0)) as large,
        routed_through(plane, follow_loads=False) as mesh,
    ):
        await plane.envoy.healthy("engine-l2")
        # A burst of batch work: one gets in, the rest is refused at once and not sent to the dearer tier.
        burst = await asyncio.gather(*(mesh.send("hang", priority=BATCH) for _ in range(8)))
        refused = [answer.error for _, answer in burst if answer.error is not None]
        assert len(refused) == 7
        assert all(isinstance(error, BreakerOpen) and error.retry_after == 1.0 for error in refused), refused
        assert not large.seen.calls

        # Whoever waits for an answer notices nothing of it.
        held = await asyncio.gather(*(mesh.send("hang") for _ in range(3)))
        assert [answer.route.tier for _, answer in held] == ["l1"] * 3
        assert not any("breaker" in reason for _, answer in held for reason in answer.route.reasons)
        assert await plane.envoy.stat("cluster.engine-l1.circuit_breakers.high.rq_open") == 1
        assert await plane.envoy.stat("cluster.engine-l1.circuit_breakers.default.rq_open") == 1
        assert await plane.envoy.stat("cluster.engine-l2.circuit_breakers.high.rq_open") == 0

        # Now theirs is open too, and they go on to the next tier, whose label says why.
        moved = await mesh.whole("ok")
        assert moved.route.tier == "l2"
        assert moved.route.reasons[-1] == "breaker_open:l1"
        assert {v.tier: v.breaker_open for v in moved.route.verdicts} == {"l1": True, "l2": False}
        (span,) = [
            s for s in mesh.tracing.finished if s.attributes.get("tiermesh.tier") == "l2" and s.kind.name == "SERVER"
        ]
        assert span.attributes["tiermesh.breakers_open"] == ("l1",)
        assert span.attributes["tiermesh.attempts"] == ("l1=BREAKER_OPEN", "l2=answered")

        # Explained while it is open: the router forgets a refusal within a second, so it is asked again until seen.
        async def seen_open():
            await mesh.whole("ok", priority=BATCH)
            return await breaker_open(mesh, "l1", priority=BATCH)

        await eventually(seen_open)
        counted = mesh.figures("tiermesh.breaker.refusals")
        assert counted[("priority", "batch"), ("tier", "l1")] >= 8
        assert counted[("priority", "interactive"), ("tier", "l1")] == 1

        # Room again: both are let in, and nothing is open any more.
        plane.engine.seen.release.set()
        for call, answer in [*held, *burst]:
            if answer.error is None:
                assert (await rest(call, answer)).kinds()[-1] == "done"
        for fields in ({}, {"priority": BATCH}):

            async def let_in(fields=fields):
                answer = await mesh.whole("ok", **fields)
                return answer.error is None and answer.route.tier == "l1"

            await eventually(let_in)
            assert not await breaker_open(mesh, "l1", **fields)
        assert not mesh.figures("tiermesh.breaker.open")
        assert await plane.envoy.stat("cluster.engine-l1.circuit_breakers.high.rq_open") == 0
        assert "batch" in {seen.get("x-tiermesh-priority") for seen in plane.engine.seen.metadata}
