"""A caller goes away while its prompt waits, is read, or is answered, in virtual time: the engine does no more for it."""

import asyncio
from contextlib import aclosing

import pytest
from harness.virtual_time import VirtualTime, run_in_virtual_time
from tiermesh.engine.adapters.simulated import SimulatedBackend
from tiermesh.engine.engine import Engine, Request
from tiermesh.engine.ports import Lane, Piece, Sampling, Turn
from tiermesh.shared.budget import Budget
from tiermesh.shared.config import TierConfig

TIER = TierConfig(
    name="l1",
    backend="simulated",
    model="toy",
    slots=1,
    simulated_ttft_ms=200,
    simulated_tokens_per_second=100,
)
MOST_WORK_S = 0.05


async def ask(engine, loop, name, began=None):
    """Reads a whole answer; returns its pieces."""
    request = Request(name, (Turn("user", f"question {name}"),), Sampling(max_tokens=64), Lane.INTERACTIVE, "a")
    found = []
    async with aclosing(engine.answer(request, Budget.of(60, loop))) as events:
        async for event in events:
            if isinstance(event, Piece):
                found.append(event)
                if began is not None:
                    began.set()
    return found


@pytest.mark.parametrize("after_s", [0.0, 0.1, 0.25, 0.4], ids=["queued", "reading", "first token", "midway"])
def test_at_most_50_ms_of_work_after_the_cancellation_and_nothing_in_hand(after_s):
    loop = VirtualTime()
    engine = Engine(TIER, clock=loop)
    engine.begin(SimulatedBackend(TIER, clock=loop))

    async def work():
        ahead = asyncio.ensure_future(ask(engine, loop, "ahead")) if after_s == 0.0 else None
        leaver = asyncio.ensure_future(ask(engine, loop, "leaver"))
        await asyncio.sleep(after_s or 0.05)
        before = engine.load()
        assert before.running == 1
        assert before.waiting == (1 if ahead else 0)
        leaver.cancel()
        cancelled_at = loop.time()
        with pytest.raises(asyncio.CancelledError):
            await leaver
        after = engine.load()
        assert (after.running, after.waiting) == (1 if ahead else 0, 0)
        assert loop.time() - cancelled_at <= MOST_WORK_S
        written = after.generated_tokens
        if ahead:
            await ahead
        else:
            # Long enough for the rest of the answer, had anybody gone on with it.
            await asyncio.sleep(5)
            assert engine.load().generated_tokens - written <= MOST_WORK_S * TIER.simulated_tokens_per_second
        # The slot is free for the next one, which gets it at once.
        began, asked_at = asyncio.Event(), loop.time()
        last = asyncio.ensure_future(ask(engine, loop, "next", began))
        await began.wait()
        assert loop.time() - asked_at == pytest.approx(0.2, abs=0.02)
        assert await last
        assert (engine.load().running, engine.load().waiting, engine.load().aborted) == (0, 0, 1)

    run_in_virtual_time(work(), loop)
