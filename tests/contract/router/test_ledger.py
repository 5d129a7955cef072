"""The ledger on the wire: where the time went, in every terminal event and on the span."""

import asyncio

import pytest
from google.protobuf.duration_pb2 import Duration
from harness.ledgers import TOLERANCE_MS, check_ledger, ms, parts_ms
from harness.router import EARLY_END, METADATA, RESERVE_S, ask, running_router
from harness.short_deadlines import until_one_is_in_time
from tiermesh.api.common.v1 import answer_pb2
from tiermesh.api.engine.v1 import engine_pb2
from tiermesh.shared.errors import QueueFull, Unavailable
from tiermesh.shared.testing import answer_steps


def timed(steps, **parts_ms):
    timing = answer_pb2.EngineTiming(**{name: Duration(nanos=int(value * 1e6)) for name, value in parts_ms.items()})
    steps[-1].done.timing.CopyFrom(timing)
    return steps


async def rest(call):
    """Reads to the end of a complete answer."""
    while not (event := await call.read()).HasField("done"):
        pass
    return event.done


async def test_the_end_tells_of_every_hop_and_sums_up(mesh):
    gate = asyncio.Event()
    steps = timed(answer_steps("a", "b"), queue=10, tokenize=5, prefill=20, decode=30, detokenize=1)
    mesh.engines["l1"].steps = [*steps[:2], gate, *steps[2:]]
    call = mesh.router.Generate(ask(), timeout=60, metadata=METADATA)
    await call.read()
    await asyncio.sleep(0.15)
    gate.set()
    done = await rest(call)
    ledger = done.ledger
    check_ledger(ledger)
    assert ledger.lane == "simple"
    assert ms(ledger.total) == ms(done.total)
    # gRPC rounds a timeout of 60 s up to a tenth of a second.
    assert 5_000 < ms(ledger.budget_in) <= 60_100
    assert ms(ledger.budget_out) == pytest.approx(ms(ledger.budget_in) - ms(ledger.total), abs=1)
    assert {(hop.name, hop.tier, hop.outcome) for hop in ledger.hops} == {
        ("cache", "", "miss"),
        ("classifier", "", "ok"),
        ("engine", "l1", "answered"),
    }
    found = parts_ms(ledger.parts)
    assert (found["queue"], found["tokenize"], found["prefill"], found["decode"], found["detokenize"]) == (
        10,
        5,
        20,
        30,
        1,
    )
    # 150 ms of waiting that the engine did not account for.
    assert found["network"] > 80
    assert found["service"] > 0
    assert found["routing"] > 0


async def test_side_by_side_calls_are_counted_once(mesh):
    ledger = (await mesh.generate()).last.done.ledger
    check_ledger(ledger)
    hops = {hop.name: hop for hop in ledger.hops}
    both = ms(hops["cache"].total) + ms(hops["classifier"].total)
    overlapped = ms(hops["cache"].overlapped) + ms(hops["classifier"].overlapped)
    assert overlapped > 0
    assert ms(ledger.parts.service) == pytest.approx(both - overlapped, abs=0.01)


async def test_an_engine_that_tells_no_times_is_timed_from_here(mesh):
    gate = asyncio.Event()
    steps = answer_steps("a", "b")
    mesh.engines["l1"].steps = [*steps[:2], gate, *steps[2:]]
    call = mesh.router.Generate(ask(), timeout=60, metadata=METADATA)
    await call.read()
    await asyncio.sleep(0.1)
    gate.set()
    done = await rest(call)
    check_ledger(done.ledger)
    assert ms(done.ledger.parts.decode) > 50


async def test_failed_attempts_are_in_the_ledger_too(mesh):
    mesh.engines["l1"].error = QueueFull("busy")
    ledger = (await mesh.generate()).last.done.ledger
    check_ledger(ledger)
    assert [(hop.tier, hop.outcome) for hop in ledger.hops if hop.name == "engine"] == [
        ("l1", "QUEUE_FULL"),
        ("l2", "answered"),
    ]


async def test_a_failure_event_carries_the_ledger(mesh):
    mesh.engines["l1"].steps = [*answer_steps("half")[:2], Unavailable("connection lost")]
    answer = await mesh.generate()
    ledger = answer.last.failure.ledger
    check_ledger(ledger)
    assert ledger.hops[-1].outcome in {"UNAVAILABLE", "STREAM_BROKEN"}


async def test_a_deadline_shows_where_it_went():
    async with running_router(deadlines=EARLY_END) as mesh:
        started = engine_pb2.GenerateResponse(started=engine_pb2.Started())
        piece = engine_pb2.GenerateResponse(delta=answer_pb2.Delta(text="half"))
        mesh.engines["l1"].steps = [started, piece, asyncio.Event()]
        answer = await until_one_is_in_time(
            lambda s: mesh.generate(timeout=s), lambda answer: answer.text, reserve_s=RESERVE_S
        )
        ledger = answer.last.failure.ledger
        check_ledger(ledger)
        (engine,) = [hop for hop in ledger.hops if hop.name == "engine"]
        # What was left for the engine went into its second token, which never came.
        assert ms(ledger.parts.decode) > 0
        assert ms(engine.budget_out) < 10
        assert ms(ledger.budget_out) <= EARLY_END["reserve_ms"] + 10


async def test_a_hit_has_a_ledger_without_engines(mesh):
    await mesh.generate()
    await mesh.wired.stores.drain()
    ledger = (await mesh.generate()).last.done.ledger
    check_ledger(ledger)
    assert ledger.lane == ""
    assert {hop.name for hop in ledger.hops} <= {"cache", "classifier"}
    assert next(hop.outcome for hop in ledger.hops if hop.name == "cache") == "hit"


async def test_the_span_carries_the_parts(mesh):
    done = (await mesh.generate()).last.done
    found = mesh.tracing.named("RouterService/Generate").attributes
    parts = [found[f"tiermesh.ledger.{name}_ms"] for name in ("queue", "network", "prefill", "decode", "routing")]
    assert all(value >= 0 for value in parts)
    names = ("queue", "network", "tokenize", "prefill", "decode", "detokenize", "service", "routing")
    total = sum(found[f"tiermesh.ledger.{name}_ms"] for name in names)
    assert total == pytest.approx(found["tiermesh.ledger.total_ms"], abs=TOLERANCE_MS)
    assert found["tiermesh.ledger.total_ms"] == pytest.approx(ms(done.total), abs=10_000)
    assert found["tiermesh.lane"] == "simple"


async def test_failures_before_the_first_event_are_on_the_span(mesh):
    for engine in mesh.engines.values():
        engine.error = Unavailable("gone")
    await mesh.generate()
    assert mesh.tracing.named("RouterService/Generate").attributes["tiermesh.ledger.total_ms"] > 0


@pytest.mark.parametrize("fields", [{"timeout": None}, {"metadata": (*METADATA, ("x-tiermesh-deadline", "default"))}])
async def test_a_lanes_deadline_counts_for_callers_without_one_where_that_is_configured(fields):
    lanes = {"default_deadlines": True, "simple": {"deadline_ms": 500}}
    async with running_router(lanes=lanes) as mesh:
        mesh.engines["l1"].hangs = mesh.engines["l2"].hangs = True
        began = asyncio.get_running_loop().time()
        answer = await mesh.generate(**fields)
        assert answer.error.reason == "BUDGET_EXHAUSTED"
        assert asyncio.get_running_loop().time() - began < 30
        mesh.engines["l1"].hangs = mesh.engines["l2"].hangs = False
        assert (await mesh.generate(timeout=60)).error is None
