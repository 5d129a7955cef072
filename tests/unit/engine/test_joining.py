"""What is there at once leaves together, in order, and nothing waits for what is not there."""

import asyncio
from contextlib import aclosing

import pytest
from tiermesh.engine.joining import AHEAD, joined


class Source:
    """Yields its steps; waits at events; tells how it was left."""

    def __init__(self, *steps):
        self.steps = steps
        self.given = 0
        self.closed = asyncio.Event()

    async def run(self):
        try:
            for step in self.steps:
                if isinstance(step, asyncio.Event):
                    await step.wait()
                elif isinstance(step, Exception):
                    raise step
                else:
                    self.given += 1
                    yield step
        finally:
            self.closed.set()


async def test_what_is_there_at_once_is_one_list():
    assert [group async for group in joined(Source(1, 2, 3).run())] == [[1, 2, 3]]


async def test_nothing_is_no_list():
    assert [group async for group in joined(Source().run())] == []


async def test_nothing_waits_for_what_is_not_there():
    gate = asyncio.Event()
    async with asyncio.timeout(60), aclosing(joined(Source(1, gate, 2, 3).run())) as groups:
        assert await anext(groups) == [1]
        gate.set()
        assert [group async for group in groups] == [[2, 3]]


async def test_an_error_comes_after_what_came_before_it():
    seen = []
    with pytest.raises(ValueError, match="broken"):
        async for group in joined(Source(1, 2, ValueError("broken")).run()):
            seen += group
    assert seen == [1, 2]


async def test_a_slow_reader_holds_the_source_up_and_misses_nothing():
    source = Source(*range(3 * AHEAD))
    groups = joined(source.run())
    seen = await anext(groups)
    assert len(seen) == AHEAD
    for _ in range(10 * AHEAD):
        await asyncio.sleep(0)
    assert source.given == 2 * AHEAD
    async for group in groups:
        assert len(group) <= AHEAD
        seen += group
    assert seen == list(range(3 * AHEAD))


async def test_closing_closes_the_source():
    source = Source(1, asyncio.Event(), 2)
    async with asyncio.timeout(60):
        async with aclosing(joined(source.run())) as groups:
            assert await anext(groups) == [1]
        assert source.closed.is_set()


async def test_cancelling_the_reader_closes_the_source():
    source = Source(1, asyncio.Event(), 2)
    read = asyncio.Event()

    async def reader():
        async with aclosing(joined(source.run())) as groups:
            async for _ in groups:
                read.set()

    task = asyncio.create_task(reader())
    async with asyncio.timeout(60):
        await read.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert source.closed.is_set()
