"""Requests that never stop, to show that something happens without failing one of them."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

from harness.eventually import eventually


@dataclass
class Traffic:
    """What came of the requests."""

    done: int = 0
    failures: list[str] = field(default_factory=list)

    async def more(self, count: int = 20) -> None:
        """Waits until `count` more requests have ended."""
        target = self.done + count

        async def enough() -> bool:
            return self.done >= target

        await eventually(enough)


@asynccontextmanager
async def steady_traffic(send: Callable[[], Awaitable[str | None]], *, workers: int = 2) -> AsyncIterator[Traffic]:
    """Calls `send` again and again until the block is left; it returns what went wrong, or None."""
    traffic, stopped = Traffic(), asyncio.Event()

    async def work() -> None:
        while not stopped.is_set():
            problem = await send()
            traffic.done += 1
            if problem is not None:
                traffic.failures.append(problem)

    async with asyncio.TaskGroup() as group:
        for _ in range(workers):
            group.create_task(work())
        try:
            await traffic.more()
            yield traffic
            await traffic.more()
        finally:
            stopped.set()
