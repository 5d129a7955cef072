import asyncio
from contextlib import suppress

import pytest
from tiermesh.engine.admission import Admission
from tiermesh.engine.ports import Lane
from tiermesh.engine.waiting import WaitingLine
from tiermesh.shared.budget import Budget
from tiermesh.shared.errors import BudgetExhausted, QueueFull
from tiermesh.shared.testing import FakeClock


class Door:
    """An admission with a clock that stands still, and holders that leave when told."""

    def __init__(self, slots: int = 1, limit: int = 2, reserved: int = 0) -> None:
        self.clock = FakeClock()
        line = WaitingLine(slots=slots, limit=limit, reserved=reserved, batch_patience=10.0)
        self.admission = Admission(line, clock=self.clock, tier="l1")

    def budget(self, seconds: float = 60.0) -> Budget:
        return Budget.of(seconds, self.clock)

    async def hold(self, let_go: asyncio.Event, lane: Lane = Lane.INTERACTIVE, budget: Budget | None = None) -> float:
        async with self.admission.slot(lane, budget or self.budget()) as slot:
            await let_go.wait()
            return slot.waited


async def started(*tasks: asyncio.Task[float]) -> None:
    for _ in range(3):
        await asyncio.sleep(0)
    assert not any(task.done() for task in tasks)


async def test_waiting_is_timed_from_arrival_to_slot():
    door = Door()
    first_goes, second_goes = asyncio.Event(), asyncio.Event()
    first, second = asyncio.create_task(door.hold(first_goes)), asyncio.create_task(door.hold(second_goes))
    await started(first, second)
    assert (door.admission.running_count, door.admission.waiting_count) == (1, 1)
    door.clock.advance(2.5)
    first_goes.set()
    assert await first == 0.0
    second_goes.set()
    assert await second == 2.5
    assert (door.admission.running_count, door.admission.waiting_count) == (0, 0)


async def test_a_full_queue_refuses_and_says_when_to_come_back():
    door = Door(slots=2, limit=1)
    go = asyncio.Event()
    # A whole answer of 6 s, which the estimate is made from.
    served = asyncio.create_task(door.hold(go))
    await started(served)
    door.clock.advance(6.0)
    go.set()
    await served
    stay = asyncio.Event()
    held = [asyncio.create_task(door.hold(stay)) for _ in range(3)]
    await started(*held)
    with pytest.raises(QueueFull, match="2 prompts run, 1 wait") as refused:
        await door.hold(stay)
    # One waits already, so two answers of 6 s must end on two slots.
    assert refused.value.retry_after == pytest.approx(6.0)
    stay.set()
    await asyncio.gather(*held)


async def test_a_passed_deadline_is_refused_before_queueing_even_if_a_slot_is_free():
    door = Door()
    budget = door.budget(1.0)
    door.clock.advance(1.0)
    with pytest.raises(BudgetExhausted):
        await door.hold(asyncio.Event(), budget=budget)
    assert door.admission.running_count == 0


async def test_a_deadline_that_passes_in_the_queue_gives_the_place_up():
    door = Door()
    go = asyncio.Event()
    first = asyncio.create_task(door.hold(go))
    await started(first)
    with pytest.raises(BudgetExhausted, match="queue of tier l1"):
        await door.hold(go, budget=door.budget(0.01))
    assert door.admission.waiting_count == 0
    go.set()
    await first


async def test_a_caller_who_goes_while_waiting_leaves_no_trace():
    door = Door()
    go, other_goes = asyncio.Event(), asyncio.Event()
    first, second, third = (asyncio.create_task(door.hold(event)) for event in (go, asyncio.Event(), other_goes))
    await started(first, second, third)
    second.cancel()
    with suppress(asyncio.CancelledError):
        await second
    go.set()
    await first
    other_goes.set()
    await third
    assert (door.admission.running_count, door.admission.waiting_count) == (0, 0)


async def test_a_slot_given_to_a_caller_who_is_just_leaving_goes_to_the_next():
    door = Door()
    go, last_goes = asyncio.Event(), asyncio.Event()
    first = asyncio.create_task(door.hold(go))
    second = asyncio.create_task(door.hold(asyncio.Event()))
    third = asyncio.create_task(door.hold(last_goes))
    await started(first, second, third)
    # In one turn of the loop: the slot is handed to the second, and the second is cancelled.
    go.set()
    await asyncio.sleep(0)
    second.cancel()
    await first
    with suppress(asyncio.CancelledError):
        await second
    last_goes.set()
    await third
    assert door.admission.running_count == 0


async def test_displaced_batch_work_is_told_that_the_queue_is_full():
    door = Door(slots=1, limit=1)
    go = asyncio.Event()
    running = asyncio.create_task(door.hold(go))
    await started(running)
    batch = asyncio.create_task(door.hold(go, Lane.BATCH))
    await started(batch)
    person = asyncio.create_task(door.hold(go))
    with pytest.raises(QueueFull):
        await batch
    go.set()
    await asyncio.gather(running, person)


async def test_failed_answers_do_not_count_as_service_times():
    door = Door()
    for _ in range(3):
        with suppress(RuntimeError):
            async with door.admission.slot(Lane.INTERACTIVE, door.budget()):
                raise RuntimeError
    assert door.admission.retry_after(Lane.INTERACTIVE) == pytest.approx(1.0)
    assert door.admission.running_count == 0
