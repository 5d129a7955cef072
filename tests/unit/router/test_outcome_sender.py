"""How records of outcomes leave for the log: together, and at once where there are enough or the router stops."""

import asyncio
from contextlib import asynccontextmanager

from tiermesh.api.outcome.v1 import record_pb2
from tiermesh.router.outcomes.sender import BATCH, OutcomeSender
from tiermesh.router.telling.metrics import RequestMetrics
from tiermesh.shared.clock import SYSTEM_CLOCK

LONG_S = 60.0
"""No test waits for as long as that."""


class Log:
    """Notes which records it is given, call by call."""

    def __init__(self):
        self.calls = []
        self.called = asyncio.Event()

    async def record(self, outcomes, *, budget):
        assert budget.remaining() > 0
        self.calls.append([each.request_id for each in outcomes])
        self.called.set()


@asynccontextmanager
async def running_sender(**options):
    log = Log()
    sender = OutcomeSender(log, SYSTEM_CLOCK, RequestMetrics(), **options)
    running = asyncio.create_task(sender.run())
    try:
        async with asyncio.timeout(LONG_S / 2):
            yield sender, log
    finally:
        running.cancel()


def offer(sender, *names):
    for name in names:
        sender.offer(lambda name=name: record_pb2.Outcome(request_id=name))


async def test_records_wait_for_others_and_leave_together_when_the_router_stops():
    async with running_sender(linger_s=LONG_S) as (sender, log):
        offer(sender, "a")
        await asyncio.sleep(0)
        offer(sender, "b", "c")
        await sender.drain(within_s=20)
        assert log.calls == [["a", "b", "c"]]
        assert len(sender) == 0


async def test_a_record_does_not_wait_for_others_that_never_come():
    async with running_sender(linger_s=0.01) as (sender, log):
        offer(sender, "a")
        await log.called.wait()
        assert log.calls == [["a"]]


async def test_a_whole_batch_leaves_at_once():
    async with running_sender(linger_s=LONG_S) as (sender, log):
        names = [str(n) for n in range(BATCH)]
        offer(sender, *names)
        await log.called.wait()
        assert log.calls == [names]


async def test_nothing_is_dropped_for_want_of_room_while_it_waits_for_others():
    async with running_sender(linger_s=LONG_S, max_records=4) as (sender, log):
        offer(sender, "a", "b")
        await log.called.wait()
        assert log.calls == [["a", "b"]]


async def test_more_than_a_batch_is_drained_without_waiting_between():
    async with running_sender(linger_s=LONG_S, max_records=3 * BATCH) as (sender, log):
        offer(sender, *(str(n) for n in range(BATCH + 5)))
        await sender.drain(within_s=20)
        assert [len(call) for call in log.calls] == [BATCH, 5]


async def test_a_drain_that_found_nothing_leaves_the_next_records_their_wait():
    async with running_sender(linger_s=LONG_S) as (sender, log):
        await sender.drain(within_s=20)
        offer(sender, "a")
        await sender.drain(within_s=20)
        offer(sender, "b", "c")
        await sender.drain(within_s=20)
        assert log.calls == [["a"], ["b", "c"]]
