"""The router follows how busy tiers are, and decides by it."""

import asyncio
from contextlib import asynccontextmanager

from harness.eventually import eventually
from harness.router import ask, running_router
from tiermesh.api.classifier.v1 import classifier_pb2
from tiermesh.api.common.v1 import chat_pb2
from tiermesh.api.engine.v1 import engine_pb2
from tiermesh.shared.errors import QueueFull
from tiermesh.shared.testing import answer_steps

BUSY = engine_pb2.WatchLoadResponse(running_count=4, waiting_count=4, slot_count=4, queue_limit=8)
FREE = engine_pb2.WatchLoadResponse(running_count=1, slot_count=4, queue_limit=8)


@asynccontextmanager
async def followed(**changes):
    async with running_router(**changes) as mesh:
        following = asyncio.create_task(mesh.wired.loads.run())
        try:
            async with asyncio.timeout(60):
                for engine in mesh.engines.values():
                    await engine.load_watched.wait()
            yield mesh
        finally:
            following.cancel()
            await asyncio.gather(following, return_exceptions=True)


async def first_tier(mesh, wanted, **fields):
    """Explains until the report has arrived."""

    async def arrived():
        route = (await mesh.explain(ask(**fields))).route
        return route if route.tier == wanted else None

    return await eventually(arrived)


async def test_a_backlog_spills_and_its_end_brings_requests_back():
    async with followed() as mesh:
        mesh.engines["l1"].report_load(BUSY)
        route = await first_tier(mesh, "l2")
        assert list(route.reasons) == ["rule:question", "spilled:l1"]
        answer = await mesh.generate()
        assert answer.route.tier == "l2"
        mesh.engines["l1"].report_load(FREE)
        assert list((await first_tier(mesh, "l1")).reasons) == ["rule:question"]


async def test_a_busy_large_tier_is_degraded_and_the_answer_is_not_kept():
    async with followed() as mesh:
        mesh.classifier.response = classifier_pb2.ClassifyResponse(
            task_type=classifier_pb2.TASK_TYPE_QA, complexity=0.9, confidence=0.9, source="rules"
        )
        mesh.engines["l2"].report_load(BUSY)
        assert (await first_tier(mesh, "l1")).reasons[-1] == "degraded"
        answer = await mesh.generate()
        assert answer.text == "l1 says 你好"
        assert answer.headers["x-tiermesh-reasons"].endswith("degraded")
        await mesh.wired.stores.drain()
        assert not mesh.cache.stores


async def test_at_overload_batch_is_shed_before_any_engine_and_interactive_goes_on():
    async with followed() as mesh:
        for name in ("l1", "l2"):
            mesh.engines[name].report_load(BUSY)
        batch = ask("later", priority=chat_pb2.PRIORITY_BATCH)

        async def refused():
            return (await mesh.generate(batch)).error

        error = await eventually(refused)
        assert isinstance(error, QueueFull)
        assert error.retry_after > 0
        seen = sum(len(engine.requests) for engine in mesh.engines.values())
        assert (await mesh.generate(batch)).error is not None
        assert sum(len(engine.requests) for engine in mesh.engines.values()) == seen
        assert (await mesh.generate(ask("now"))).error is None


async def test_an_escalation_does_not_go_to_a_backlogged_tier():
    async with followed() as mesh:
        mesh.classifier.response.confidence = 0.1
        mesh.engines["l2"].report_load(BUSY)
        steps = [engine_pb2.GenerateResponse(started=engine_pb2.Started())]
        for _ in range(20):
            steps.append(engine_pb2.GenerateResponse())
            steps[-1].delta.text = "no "
            steps[-1].delta.token_ids.append(1)
        steps.append(engine_pb2.GenerateResponse(done=engine_pb2.Done()))
        mesh.engines["l1"].steps = steps
        async with asyncio.timeout(60):
            n = 0
            while (answer := await mesh.generate(ask(f"try {n}"))).route.tier != "l1":
                n += 1
        assert list(answer.last.done.reasons) == ["escalation_skipped=load"]


async def test_an_answer_tells_of_its_engines_load_before_the_next_report():
    # Nobody watches here: what is known came with the answer.
    async with running_router() as mesh:
        steps = answer_steps("l1 ", "says")
        for step in (steps[0], steps[-1]):
            step.load.CopyFrom(BUSY)
        mesh.engines["l1"].steps = steps

        async def spilled():
            # Feedback counts for two seconds; should that pass between the two, they are asked again.
            assert (await mesh.generate(ask(model="tier:l1"))).error is None
            return list((await mesh.explain()).route.reasons) == ["rule:question", "spilled:l1"]

        await eventually(spilled)


async def test_reports_are_in_no_trace():
    async with followed() as mesh:
        await mesh.generate()
        assert not [span for span in mesh.tracing.finished if "WatchLoad" in span.name]


async def test_a_tier_that_goes_is_forgotten_and_found_again():
    async with followed() as mesh:
        mesh.engines["l1"].report_load(BUSY)
        await first_tier(mesh, "l2")
        await mesh.servers["engine-l1"].drain(0)
        # Nothing tells that it is busy any more; that it is gone, the next request finds out.
        await first_tier(mesh, "l1")
