"""Forwarding in the background, to a collector that comes and goes."""

import asyncio

import pytest
from tiermesh.traces.backlog import Backlog
from tiermesh.traces.forwarder import Forwarder
from tiermesh.traces.ports import CollectorRefused, CollectorUnavailable


class ScriptedCollector:
    """Raises what it is given, then takes everything."""

    def __init__(self, *failures):
        self.failures = list(failures)
        self.received = []
        self.answering = asyncio.Event()
        self.answering.set()

    async def export(self, request):
        await self.answering.wait()
        if self.failures:
            raise self.failures.pop(0)
        self.received.append(request)


class Running:
    """A forwarder whose pauses take no time."""

    def __init__(self, collector, **bounds):
        self.pauses = []
        self.backlog = Backlog(**bounds)
        self.forwarder = Forwarder(collector, self.backlog, pause=self.pause)
        self.task = asyncio.create_task(self.forwarder.run())

    async def pause(self, seconds):
        self.pauses.append(seconds)
        await asyncio.sleep(0)


@pytest.fixture
async def start():
    running = []

    def start(collector, **bounds):
        running.append(Running(collector, **bounds))
        return running[-1]

    yield start
    for one in running:
        one.task.cancel()
        await asyncio.gather(one.task, return_exceptions=True)


async def test_requests_arrive_in_order(start):
    collector = ScriptedCollector()
    running = start(collector, batch_bytes=1)
    for request in (b"a", b"b", b"c"):
        running.forwarder.offer(request)
    await running.forwarder.flush(60)
    assert collector.received == [b"a", b"b", b"c"]
    running.forwarder.offer(b"d")
    await running.forwarder.flush(60)
    assert collector.received[-1] == b"d"


async def test_a_collector_that_is_away_is_tried_again_with_growing_pauses(start):
    collector = ScriptedCollector(*[CollectorUnavailable("away")] * 7)
    running = start(collector)
    running.forwarder.offer(b"a")
    await running.forwarder.flush(60)
    assert collector.received == [b"a"]
    assert running.pauses == [0.2, 0.4, 0.8, 1.6, 3.2, 5.0, 5.0]
    assert running.forwarder.lost_batches == 0


async def test_what_is_refused_is_not_sent_again(start):
    collector = ScriptedCollector(CollectorRefused("no"))
    running = start(collector, batch_bytes=1)
    running.forwarder.offer(b"a")
    running.forwarder.offer(b"b")
    await running.forwarder.flush(60)
    assert collector.received == [b"b"]
    assert running.forwarder.lost_batches == 1
    assert running.pauses == []


async def test_one_batch_does_not_hold_up_the_rest_for_ever(start):
    collector = ScriptedCollector(*[CollectorUnavailable("chokes")] * 20)
    running = start(collector, batch_bytes=1)
    running.forwarder.offer(b"a")
    running.forwarder.offer(b"b")
    await running.forwarder.flush(60)
    assert collector.received == [b"b"]
    assert running.forwarder.lost_batches == 1


async def test_a_hanging_collector_costs_senders_nothing_and_memory_is_bounded(start):
    collector = ScriptedCollector()
    collector.answering.clear()
    running = start(collector, max_bytes=100, batch_bytes=10)
    for n in range(1000):
        running.forwarder.offer(b"%010d" % n)
        if n == 0:
            await asyncio.sleep(0)
    assert running.backlog.size_bytes <= 100
    assert running.backlog.dropped_requests >= 980
    collector.answering.set()
    await running.forwarder.flush(60)
    assert collector.received[-1] == b"%010d" % 999


async def test_flushing_gives_up_in_time(start):
    collector = ScriptedCollector()
    collector.answering.clear()
    running = start(collector)
    running.forwarder.offer(b"a")
    async with asyncio.timeout(60):
        await running.forwarder.flush(0.01)
    assert collector.received == []


async def test_a_defect_does_not_end_forwarding(start):
    collector = ScriptedCollector(ZeroDivisionError())
    running = start(collector, batch_bytes=1)
    running.forwarder.offer(b"a")
    running.forwarder.offer(b"b")
    await running.forwarder.flush(60)
    assert collector.received == [b"b"]
    assert running.forwarder.lost_batches == 1


async def test_state_changes_are_logged_once(start, capsys):
    import structlog

    with structlog.testing.capture_logs() as logs:
        collector = ScriptedCollector(*[CollectorUnavailable("away")] * 5)
        running = start(collector)
        running.forwarder.offer(b"a")
        await running.forwarder.flush(60)
        running.forwarder.offer(b"b")
        await running.forwarder.flush(60)
    assert [entry["log_level"] for entry in logs] == ["warning", "info"]
