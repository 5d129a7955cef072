"""How answers leave for the cache: together, within bounds, and in whose trace."""

import asyncio

import pytest
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from tiermesh.api.cache.v1 import cache_pb2
from tiermesh.api.common.v1 import answer_pb2
from tiermesh.router.caching.place import CachePlace
from tiermesh.router.caching.store_queue import BATCH, MAX_BYTES, StoreQueue
from tiermesh.router.telling.metrics import RequestMetrics
from tiermesh.shared.clock import SYSTEM_CLOCK
from tiermesh.shared.errors import Unavailable
from tiermesh.shared.testing import recorded_tracing

LONG_S = 60.0
"""No test waits for as long as that."""


class Cache:
    """Notes what it is given; refuses fingerprints that begin with `no`, fails or waits when told to."""

    def __init__(self):
        self.batches = []
        self.called = asyncio.Event()
        self.gate = None
        self.error = None

    async def store(self, answers, *, budget):
        assert budget.remaining() > 0
        self.batches.append([each.place.key.fingerprint for each in answers])
        self.spans = [each.span for each in answers]
        self.called.set()
        if self.gate is not None:
            await self.gate.wait()
        if self.error is not None:
            raise self.error
        return sum(not each.place.key.fingerprint.startswith(b"no") for each in answers)


class Counted:
    """A queue, its cache, and what it has counted."""

    def __init__(self, **options):
        self.reader = InMemoryMetricReader()
        self.cache = Cache()
        metrics = RequestMetrics(MeterProvider([self.reader]).get_meter("test"))
        self.queue = StoreQueue(self.cache, SYSTEM_CLOCK, metrics, **options)

    def put(self, name, text="x"):
        place = CachePlace(cache_pb2.CacheKey(tenant="a", fingerprint=name))
        return self.queue.put(place, cache_pb2.CachedAnswer(deltas=[answer_pb2.Delta(text=text)]))

    async def drained(self):
        async with asyncio.timeout(60):
            await self.queue.drain(within_s=10)

    @property
    def counts(self):
        data = self.reader.get_metrics_data()
        if data is None:
            return {}
        (metric,) = [
            m for r in data.resource_metrics for s in r.scope_metrics for m in s.metrics if m.name == "tiermesh.stores"
        ]
        return {point.attributes["state"]: point.value for point in metric.data.data_points}


async def test_answers_that_come_together_leave_together_and_in_order():
    counted = Counted(linger_s=LONG_S)
    assert all(counted.put(name) for name in (b"1", b"no", b"3"))
    await counted.drained()
    assert counted.cache.batches == [[b"1", b"no", b"3"]]
    assert counted.counts == {"kept": 2, "refused": 1}


async def test_an_answer_alone_leaves_by_itself():
    counted = Counted(linger_s=0.001)
    counted.put(b"1")
    async with asyncio.timeout(60):
        await counted.cache.called.wait()
    assert counted.cache.batches == [[b"1"]]


async def test_enough_answers_do_not_wait_for_more():
    counted = Counted(linger_s=LONG_S)
    for n in range(BATCH):
        counted.put(b"%d" % n)
    async with asyncio.timeout(60):
        await counted.cache.called.wait()
    assert [len(batch) for batch in counted.cache.batches] == [BATCH]


async def test_what_comes_during_a_call_leaves_with_the_next():
    counted = Counted(linger_s=0.001)
    counted.cache.gate = asyncio.Event()
    counted.put(b"1")
    async with asyncio.timeout(60):
        await counted.cache.called.wait()
    counted.put(b"2")
    counted.put(b"3")
    counted.cache.gate.set()
    await counted.drained()
    assert counted.cache.batches == [[b"1"], [b"2", b"3"]]


async def test_a_full_queue_drops_and_has_room_again_once_it_has_left():
    counted = Counted(linger_s=LONG_S, max_waiting=2)
    assert [counted.put(name) for name in (b"1", b"2", b"3")] == [True, True, False]
    await counted.drained()
    assert counted.put(b"4")
    await counted.drained()
    assert counted.cache.batches == [[b"1", b"2"], [b"4"]]
    assert counted.counts == {"kept": 3, "dropped": 1}


async def test_the_queue_is_bounded_in_bytes_too():
    counted = Counted(linger_s=LONG_S)
    half = "x" * (MAX_BYTES // 2)
    assert [counted.put(b"1", half), counted.put(b"2", half), counted.put(b"3")] == [True, False, True]
    await counted.drained()
    assert counted.cache.batches == [[b"1", b"3"]]


@pytest.mark.parametrize("error", [Unavailable("gone"), RuntimeError("a defect")])
async def test_a_call_that_fails_is_counted_and_ends_no_other(error):
    counted = Counted(linger_s=0.001)
    counted.cache.error = error
    counted.put(b"1")
    await counted.drained()
    counted.cache.error = None
    counted.put(b"2")
    await counted.drained()
    assert counted.cache.batches == [[b"1"], [b"2"]]
    assert counted.counts == {"failed": 1, "kept": 1}


async def test_a_drain_gives_up_a_cache_that_hangs():
    counted = Counted(linger_s=0.001)
    counted.cache.gate = asyncio.Event()
    counted.put(b"1")
    async with asyncio.timeout(60):
        await counted.cache.called.wait()
        await counted.queue.drain(within_s=0.01)
    counted.cache.gate.set()
    assert counted.put(b"2")
    await counted.drained()
    assert counted.cache.batches == [[b"1"], [b"2"]]


async def test_a_drain_of_an_empty_queue_returns():
    await Counted().drained()


async def test_every_answer_brings_the_span_of_its_request():
    counted = Counted(linger_s=LONG_S)
    with recorded_tracing() as tracing:
        spans = []
        for name in (b"1", b"2"):
            with tracing.tracer.start_as_current_span("request") as span:
                spans.append(span.get_span_context())
                counted.put(name)
        await counted.drained()
    assert counted.cache.spans == spans
