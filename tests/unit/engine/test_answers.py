import asyncio
from contextlib import aclosing

import pytest
from harness.engine import ScriptedBackend, Step
from tiermesh.engine.engine import Began, Ended, Engine, Event, Request, working_budget
from tiermesh.engine.ports import Finish, Lane, Piece, Sampling, Turn
from tiermesh.shared.budget import Budget
from tiermesh.shared.clock import SYSTEM_CLOCK
from tiermesh.shared.config import TierConfig
from tiermesh.shared.errors import (
    ContextTooLong,
    DeviceFailed,
    InferenceTimeout,
    NotApplicable,
    QueueFull,
    StreamBroken,
    Unavailable,
)
from tiermesh.shared.testing import FakeClock

TIER = TierConfig(
    name="l1", backend="simulated", model="scripted", context_tokens=100, answer_tokens=50, slots=1, queue=1
)
END = Piece(0, "!", 1, finish=Finish.STOP)


def request(*, choices: int = 1, max_tokens: int = 20, lane: Lane = Lane.INTERACTIVE) -> Request:
    return Request("r-1", (Turn("user", "你好"),), Sampling(max_tokens=max_tokens, choices=choices), lane)


def engine_with(
    *steps: Step, prompt_tokens: int = 10, clock: FakeClock | None = None
) -> tuple[Engine, ScriptedBackend]:
    backend = ScriptedBackend(*steps, prompt_tokens=prompt_tokens)
    engine = Engine(TIER, clock=clock or SYSTEM_CLOCK)
    engine.begin(backend)
    return engine, backend


async def collect(engine: Engine, wanted: Request, seconds: float = 30.0) -> list[Event]:
    async with aclosing(engine.answer(wanted, Budget.of(seconds))) as events:
        return [event async for event in events]


async def test_an_answer_begins_streams_and_ends_with_its_counts():
    engine, _ = engine_with(
        Piece(0, "he", 2, (1, 2), cached_prompt_tokens=4), Piece(0, "llo", 1, (3,), finish=Finish.LENGTH)
    )
    began, *pieces, ended = await collect(engine, request())
    assert began == Began(simulated=True, prompt_tokens=10, queue_s=pytest.approx(0.0, abs=0.1))
    assert [piece.text for piece in pieces if isinstance(piece, Piece)] == ["he", "llo"]
    assert isinstance(ended, Ended)
    assert (ended.prompt_tokens, ended.completion_tokens, ended.cached_prompt_tokens) == (10, 3, 4)
    assert ended.finishes == ((0, Finish.LENGTH),)
    assert ended.rule == "scripted-rule"
    assert engine.load().generated_tokens == 3


async def test_time_is_split_into_prefill_and_decode():
    clock = FakeClock()
    first, second = asyncio.Event(), asyncio.Event()
    engine, backend = engine_with(first, Piece(0, "a", 1), second, END, clock=clock)
    events = engine.answer(request(), Budget.of(30))
    assert isinstance(await anext(events), Began)
    reading = asyncio.ensure_future(anext(events))
    await backend.entered.wait()
    clock.advance(0.25)
    first.set()
    await reading
    clock.advance(1.5)
    second.set()
    await anext(events)
    ended = await anext(events)
    assert isinstance(ended, Ended)
    assert (ended.prefill_s, ended.decode_s) == (pytest.approx(0.25), pytest.approx(1.5))
    await events.aclose()


async def test_the_answer_limit_reaches_the_backend():
    engine, backend = engine_with(END, prompt_tokens=90)
    await collect(engine, request(max_tokens=40))
    assert backend.samplings[0].max_tokens == 10


async def test_a_prompt_without_room_for_an_answer_never_queues():
    engine, backend = engine_with(END, prompt_tokens=100)
    with pytest.raises(ContextTooLong, match="100 tokens"):
        await collect(engine, request())
    assert not backend.entered.is_set()


async def test_nothing_is_answered_before_the_model_is_warm():
    with pytest.raises(Unavailable, match="loading"):
        await collect(Engine(TIER, clock=SYSTEM_CLOCK), request())


async def test_a_refusal_of_the_backend_comes_before_the_queue():
    never = asyncio.Event()
    engine, backend = engine_with(never)
    holder = asyncio.create_task(collect(engine, request()))
    await backend.entered.wait()
    backend.refusal = NotApplicable("no rule")
    with pytest.raises(NotApplicable):
        await collect(engine, request())
    holder.cancel()
    await asyncio.wait({holder})


async def test_a_full_queue_refuses():
    never = asyncio.Event()
    engine, backend = engine_with(never)
    held = [asyncio.create_task(collect(engine, request()))]
    await backend.entered.wait()
    held.append(asyncio.create_task(collect(engine, request())))
    while engine.load().waiting == 0:
        await engine.changes.next().wait()
    assert (engine.load().running, engine.load().waiting) == (1, 1)
    with pytest.raises(QueueFull):
        await collect(engine, request())
    for task in held:
        task.cancel()
    await asyncio.wait(held)
    assert (engine.load().running, engine.load().waiting, engine.load().aborted) == (0, 0, 2)


async def test_a_deadline_while_generating_aborts_and_says_how_far_it_came():
    engine, backend = engine_with(Piece(0, "some", 7), asyncio.Event())
    events: list[Event] = []
    with pytest.raises(InferenceTimeout, match="after 7 tokens"):
        async for event in engine.answer(request(), Budget.of(0.2)):
            events.append(event)
    assert len(events) == 2
    assert backend.abandoned.is_set()
    assert engine.load().running == 0
    assert engine.load().aborted == 0


@pytest.mark.parametrize(("deadline", "work"), [(10.0, 9.95), (0.1, 0.075), (0.0, 0.0)])
def test_the_end_of_an_answer_has_its_share_of_the_deadline(deadline: float, work: float):
    budget = Budget.of(deadline, FakeClock())
    assert working_budget(budget, 0.05).remaining() == pytest.approx(work)


async def test_a_reader_who_stops_frees_the_slot_and_is_counted():
    engine, backend = engine_with(Piece(0, "a", 1), asyncio.Event())
    async with aclosing(engine.answer(request(), Budget.of(30))) as events:
        async for event in events:
            if isinstance(event, Piece):
                break
    assert backend.abandoned.is_set()
    assert (engine.load().running, engine.load().aborted) == (0, 1)


async def test_an_answer_that_ends_without_every_choice_is_broken():
    engine, _ = engine_with(END)
    with pytest.raises(StreamBroken, match="choice 1"):
        await collect(engine, request(choices=2))


async def test_a_dead_worker_is_passed_on_and_frees_the_slot():
    engine, _ = engine_with(Piece(0, "a", 1), DeviceFailed("worker died"))
    with pytest.raises(DeviceFailed):
        await collect(engine, request())
    assert engine.load().running == 0
