"""Waits for what another process does, which no event of this one announces."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import TypeVar

T = TypeVar("T")


async def eventually(check: Callable[[], Awaitable[T]], *, within_s: float = 120.0) -> T:
    """Calls `check` until it returns something true, and returns that.

    The bound only ends a test that would hang, so it is far beyond what a busy machine needs.

    Raises:
        TimeoutError: it did not within `within_s` seconds.
    """
    async with asyncio.timeout(within_s):
        while not (found := await check()):  # noqa: ASYNC110 -- see the module
            await asyncio.sleep(0.01)
        return found
