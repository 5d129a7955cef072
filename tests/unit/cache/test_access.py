"""What the store may cost a caller."""

import asyncio
import socket

import pytest
from tiermesh.cache.access import StoreAccess
from tiermesh.cache.circuit import Admission, Circuit
from tiermesh.shared.budget import Budget
from tiermesh.shared.errors import Unavailable
from tiermesh.shared.testing import FakeClock


class Operation:
    """An operation that ends when it is told to."""

    def __init__(self, error=None):
        self.release = asyncio.Event()
        self.begun = asyncio.Semaphore(0)
        self.started = 0
        self.finished = 0
        self.error = error

    async def __call__(self):
        self.started += 1
        self.begun.release()
        await self.release.wait()
        if self.error:
            raise self.error
        self.finished += 1
        return "answer"


@pytest.fixture
def clock():
    return FakeClock()


@pytest.fixture
def circuit(clock):
    return Circuit(clock, threshold=2)


@pytest.fixture
async def access(circuit):
    access = StoreAccess(circuit, max_running=8)
    yield access
    await access.aclose()


def run(access, operation, *, budget_s=10.0, cap_s=0.005, **options):
    return access.run(operation, budget=Budget.of(budget_s), cap_s=cap_s, **options)


async def test_a_result_in_time_is_returned(access):
    operation = Operation()
    operation.release.set()
    assert await run(access, operation) == "answer"


async def test_waiting_ends_but_the_operation_goes_on(access):
    operation = Operation()
    with pytest.raises(Unavailable):
        await run(access, operation)
    operation.release.set()
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    assert operation.finished == 1


async def test_a_cancelled_caller_does_not_cancel_the_operation(access, circuit):
    operation = Operation()
    caller = asyncio.create_task(run(access, operation, cap_s=10))
    await operation.begun.acquire()
    caller.cancel()
    with pytest.raises(asyncio.CancelledError):
        await caller
    operation.release.set()
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    assert operation.finished == 1
    assert not circuit.is_open


async def test_slow_and_failing_stores_open_the_circuit(access, circuit):
    with pytest.raises(Unavailable):
        await run(access, Operation())
    failing = Operation(Unavailable("gone"))
    failing.release.set()
    with pytest.raises(Unavailable):
        await run(access, failing)
    assert circuit.is_open
    refused = Operation()
    with pytest.raises(Unavailable):
        await run(access, refused, cap_s=10)
    assert refused.started == 0


async def test_insisting_passes_an_open_circuit_and_closes_it(access, circuit):
    for _ in range(2):
        circuit.failed(circuit.admit())
    operation = Operation()
    operation.release.set()
    assert await run(access, operation, insist=True) == "answer"
    assert not circuit.is_open


async def test_a_caller_in_a_hurry_says_nothing_about_the_store(access, circuit):
    for _ in range(5):
        with pytest.raises(Unavailable):
            await run(access, Operation(), budget_s=0.001, cap_s=10)
    assert not circuit.is_open


async def test_an_abandoned_probe_is_given_to_the_next_caller(access, circuit, clock):
    for _ in range(2):
        circuit.failed(circuit.admit())
    clock.advance(1)
    caller = asyncio.create_task(run(access, Operation(), cap_s=10))
    await asyncio.sleep(0)
    caller.cancel()
    with pytest.raises(asyncio.CancelledError):
        await caller
    operation = Operation()
    operation.release.set()
    assert await run(access, operation) == "answer"
    assert not circuit.is_open


async def test_unfinished_operations_are_bounded(access):
    hanging = Operation()
    callers = [asyncio.create_task(run(access, hanging, cap_s=10)) for _ in range(8)]
    for _ in callers:
        await hanging.begun.acquire()
    with pytest.raises(Unavailable, match="8 operations"):
        await run(access, Operation())
    hanging.release.set()
    assert await asyncio.gather(*callers) == ["answer"] * 8


async def test_a_defect_is_not_hidden_as_a_miss(access, circuit):
    broken = Operation(ZeroDivisionError())
    broken.release.set()
    with pytest.raises(ZeroDivisionError):
        await run(access, broken)
    assert not circuit.is_open


async def test_closing_ends_what_still_runs(circuit):
    access = StoreAccess(circuit)
    caller = asyncio.create_task(run(access, Operation(), cap_s=10))
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    await access.aclose()
    with pytest.raises(Unavailable):
        await caller


async def test_calls_that_wait_side_by_side_are_one_failure(access, circuit):
    outcomes = await asyncio.gather(*(run(access, Operation()) for _ in range(6)), return_exceptions=True)
    assert all(isinstance(outcome, Unavailable) for outcome in outcomes)
    assert not circuit.is_open
    with pytest.raises(Unavailable):
        await run(access, Operation())
    assert circuit.is_open


async def test_calls_that_wait_side_by_side_fail_a_probe_all_the_same(access, circuit, clock):
    early = asyncio.create_task(run(access, Operation()))
    await asyncio.sleep(0)
    for _ in range(2):
        circuit.failed(circuit.admit())
    clock.advance(1)
    failing = Operation(Unavailable("gone"))
    failing.release.set()
    probe = asyncio.create_task(run(access, failing))
    assert [type(each) for each in await asyncio.gather(early, probe, return_exceptions=True)] == [Unavailable] * 2
    assert circuit.admit() is Admission.REFUSED


async def test_a_reply_that_a_held_up_loop_has_not_read_yet_is_in_time(access):
    loop = asyncio.get_running_loop()
    here, there = socket.socketpair()
    here.setblocking(False)
    asked = asyncio.Event()

    async def operation():
        asked.set()
        read = await loop.sock_recv(here, 5)
        # As redis-py hands a reply on.
        await asyncio.sleep(0)
        return read

    with here, there:
        running = asyncio.create_task(run(access, operation, cap_s=0.05))
        await asked.wait()
        due = loop.time() + 0.1
        there.send(b"reply")
        while loop.time() < due:
            pass
        assert await running == b"reply"
