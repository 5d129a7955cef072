"""Where the time of a request went, over the wire of a mesh of real processes, however the request ended."""

import asyncio
import time

import grpc
import pytest
from harness.eventually import eventually
from harness.ledgers import check_engine_hops, check_ledger, ms, parts_ms
from harness.mesh import PATIENT_DEADLINES
from tiermesh.api.common.v1 import chat_pb2
from tiermesh.api.router.v1 import router_pb2, router_pb2_grpc

ENGINE_PARTS = {"network", "prefill", "decode"}
COMPLEX = "Explain in detail how quantum entanglement challenges local realism and why it matters."


def request_of(text, *, max_tokens=8, choices=1, **fields):
    return router_pb2.GenerateRequest(
        messages=[chat_pb2.Message(role=chat_pb2.ROLE_USER, content=text)],
        sampling=chat_pb2.Sampling(max_tokens=max_tokens, choice_count=choices),
        **fields,
    )


@pytest.fixture
async def stub(lite):
    async with lite[0].channel() as channel:
        yield router_pb2_grpc.RouterServiceStub(channel)


@pytest.fixture
def asked(lite, stub):
    """Asks the lite mesh; returns the label, the last event and how many milliseconds the caller waited."""

    async def ask(text, *, timeout=60, **fields):
        began = time.monotonic()
        events = []
        try:
            async for event in stub.Generate(request_of(text, **fields), timeout=timeout, metadata=lite[0].metadata):
                events.append(event)
        except grpc.aio.AioRpcError:
            assert events[-1].HasField("failure")
        return events[0].route, events[-1], (time.monotonic() - began) * 1000

    return ask


@pytest.fixture
def explained(lite, stub):
    """The label that the lite mesh would give to a question now."""

    async def explain(text, **fields):
        wanted = router_pb2.ExplainRequest(request=request_of(text, **fields))
        return (await stub.Explain(wanted, timeout=60, metadata=lite[0].metadata)).route

    return explain


async def test_a_miss_and_then_a_hit(asked):
    question = "Which river is the longest one of those that flow into the Black Sea?"
    fresh = {"cache_mode": router_pb2.CACHE_MODE_REFRESH}
    route, last, waited_ms = await asked(question, max_tokens=400, **fresh)
    check_ledger(last.done.ledger)
    check_engine_hops(last.done)
    assert set(parts_ms(last.done.ledger.parts)) >= ENGINE_PARTS | {"service", "routing"}
    assert ms(last.done.ledger.total) <= waited_ms
    assert last.done.total == last.done.ledger.total

    async def hit():
        # It is stored after its caller has been served.
        found, end, _ = await asked(question, max_tokens=400)
        return end if found.cache_status == router_pb2.CACHE_STATUS_HIT else None

    ledger = (await eventually(hit)).done.ledger
    check_ledger(ledger)
    assert {hop.name for hop in ledger.hops} <= {"cache", "classifier"}
    assert not set(parts_ms(ledger.parts)) & ENGINE_PARTS


async def test_a_degraded_answer(asked, explained, lite):
    mesh, off = lite[0], {"cache_mode": router_pb2.CACHE_MODE_OFF}

    async def degraded():
        return "degraded" in (await explained(COMPLEX, **off)).reasons

    async def room_again():
        return not await degraded()

    async def crowded(n):
        # Whoever is served comes again: the backlog must not be over while this test is not run for a moment.
        while True:
            await asked(f"story {n}", model="tier:l2", max_tokens=1000, choices=8, timeout=300, **off)

    # One that waits is a backlog.
    async with mesh.changed({"balance": {"backlog": 0.01}}):
        crowd = [asyncio.create_task(crowded(n)) for n in range(mesh.config.tier("l2").slots + 4)]
        try:
            # Asked before the router knows of the crowd, it would wait behind it. To explain waits for nobody.
            await eventually(degraded)
            route, last, _ = await asked(COMPLEX, **off)
        finally:
            for task in crowd:
                task.cancel()
            await asyncio.gather(*crowd, return_exceptions=True)
            # The mesh is others', too.
            await eventually(room_again)
    assert (route.tier, "busy:l2" in route.reasons) == ("l1", True)
    check_ledger(last.done.ledger)
    check_engine_hops(last.done)


async def test_an_answer_that_fails_midway(asked, lite):
    async def failed():
        # A machine that stalls may lose the end, or have it come before the first token: then nothing fails midway.
        try:
            _, last, waited_ms = await asked(
                "a long story",
                model="tier:l2",
                max_tokens=1000,
                choices=8,
                timeout=2.5,
                cache_mode=router_pb2.CACHE_MODE_OFF,
            )
        except (AssertionError, IndexError):
            return None
        engines = [hop for hop in last.failure.ledger.hops if hop.name == "engine"]
        return (last.failure, engines, waited_ms) if any(ms(hop.parts.decode) for hop in engines) else None

    # The end of the answer is given 1.9 s to reach its caller: a stalled machine must not make it late. Eight choices
    # take longer than what that leaves.
    async with lite[0].changed({"deadlines": {**PATIENT_DEADLINES, "reserve_ms": 1900}}):
        failure, (engine,), waited_ms = await eventually(failed)
    assert failure.reason in {"INFERENCE_TIMEOUT", "BUDGET_EXHAUSTED"}
    check_ledger(failure.ledger)
    assert engine.outcome == failure.reason
    assert set(parts_ms(engine.parts)) >= {"prefill", "decode"}
    assert ms(failure.ledger.total) <= waited_ms
