"""Waiting for a first event, and leaving when another tier should be asked."""

import asyncio

import pytest
from tiermesh.router.escalation.patience import Patience, TooSlowError


async def events(*steps, closed=None):
    try:
        for step in steps:
            if isinstance(step, asyncio.Event):
                await step.wait()
            else:
                yield step
    finally:
        if closed is not None:
            closed.set()


async def test_what_comes_in_time_is_passed_on():
    with Patience(60, lambda: "l2") as patience:
        source = events(1, 2)
        assert [await patience.next(source) for _ in range(3)] == [1, 2, None]


async def test_a_late_call_is_cancelled_before_the_other_is_named():
    closed = asyncio.Event()
    with Patience(0, lambda: "l2") as patience, pytest.raises(TooSlowError) as caught:
        await patience.next(events(asyncio.Event(), closed=closed))
    assert caught.value.instead == "l2"
    assert closed.is_set()


async def test_where_nobody_else_can_be_asked_waiting_goes_on():
    asked, gate = [], asyncio.Event()

    def instead():
        asked.append(True)
        gate.set()

    with Patience(0, instead) as patience:
        assert await patience.next(events(gate, "late")) == "late"
    assert asked == [True]


async def test_a_timer_that_is_left_never_fires():
    asked = []
    with Patience(0, lambda: asked.append(True)) as patience:
        pass
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    assert not asked
    assert await patience.next(events("x")) == "x"


async def test_cancelling_the_waiter_is_no_timeout():
    with Patience(60, lambda: "l2") as patience:
        waiting = asyncio.ensure_future(patience.next(events(asyncio.Event())))
        await asyncio.sleep(0)
        waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting
