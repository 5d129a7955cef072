"""Lets an opinion wait for the record of a request that has just ended.

A caller may report as soon as it has the answer, through another router than the one that answered,
and so a moment before the record is here.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager

MAX_WAITING = 1000
"""Opinions that may wait at once; further ones are not waited for."""


class Arrivals:
    """Who waits for which request."""

    def __init__(self) -> None:
        self._waiting: dict[tuple[str, str], set[asyncio.Event]] = {}
        self._count = 0

    @asynccontextmanager
    async def expecting(self, tenant: str, request_id: str) -> AsyncIterator[asyncio.Event | None]:
        """Yields what is set once the record of that request is filed; None where too many wait already.

        To be entered before the log is looked at, lest a record slip in between.
        """
        if self._count >= MAX_WAITING:
            yield None
            return
        key, event = (tenant, request_id), asyncio.Event()
        self._waiting.setdefault(key, set()).add(event)
        self._count += 1
        try:
            yield event
        finally:
            self._count -= 1
            others = self._waiting[key]
            others.discard(event)
            if not others:
                del self._waiting[key]

    def arrived(self, requests: Iterable[tuple[str, str]]) -> None:
        """Tells those who wait for any of these requests, each a tenant and a request id."""
        if not self._waiting:
            return
        for key in requests:
            for event in self._waiting.get(key, ()):
                event.set()
