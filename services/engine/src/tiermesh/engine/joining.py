"""What is there at once leaves together: a message costs every process on its way more than what it carries.

An engine that answers at once needs one message for an answer, and a language model one less: its
last text and the end come together. Nothing ever waits for what follows it.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import TypeVar

_Item = TypeVar("_Item")

AHEAD = 32
"""Items that may wait to be taken before their source is held up."""


async def joined(source: AsyncGenerator[_Item, None]) -> AsyncGenerator[list[_Item], None]:
    """Yields what `source` yields, in order, as lists of all that is there. Closing it closes `source`.

    The source runs in a task of its own, at most `AHEAD` items ahead of its reader. Its error is
    raised after everything that came before it.
    """
    waiting: list[_Item] = []
    news, room = asyncio.Event(), asyncio.Event()

    async def fill() -> None:
        async with aclosing(source):
            async for item in source:
                waiting.append(item)
                news.set()
                if len(waiting) >= AHEAD:
                    room.clear()
                    await room.wait()

    filling = asyncio.create_task(fill())
    filling.add_done_callback(lambda _: news.set())
    try:
        while True:
            if not waiting and not filling.done():
                news.clear()
                await news.wait()
            if not waiting:
                break
            there = waiting.copy()
            waiting.clear()
            room.set()
            yield there
        filling.result()
    finally:
        if not filling.done():
            filling.cancel()
            await asyncio.wait({filling})
        if not filling.cancelled():
            # Marks an error as seen: whoever stops reading is not interested.
            filling.exception()
