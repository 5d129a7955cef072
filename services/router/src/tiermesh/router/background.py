"""What goes on after callers have been served: answers are stored, and stale ones made anew."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine

from tiermesh.api.cache.v1 import cache_pb2
from tiermesh.router.cache_place import CachePlace
from tiermesh.router.ports import CachePort
from tiermesh.shared.budget import Budget
from tiermesh.shared.clock import Clock
from tiermesh.shared.errors import TiermeshError
from tiermesh.shared.telemetry import get_logger

STORE_BUDGET_S = 1.0
"""Seconds that storing one answer may take."""
RERUN_DRAIN_S = 5.0
"""Seconds that reruns may take to finish on shutdown; the next stale hit makes up for one that is given up."""
_log = get_logger(__name__)


class BackgroundStores:
    """Answers on their way to the cache.

    Args:
        cache: Where they go.
        clock: Time for their budgets.
        max_running: Answers that may be on their way at once. Further ones are dropped: a cache
            that cannot keep up must not fill the router's memory.
    """

    def __init__(self, cache: CachePort, clock: Clock, *, max_running: int = 256) -> None:
        self._cache = cache
        self._clock = clock
        self._max_running = max_running
        self._running: set[asyncio.Task[None]] = set()

    def start(self, place: CachePlace, answer: cache_pb2.CachedAnswer) -> bool:
        """Begins to store an answer; returns whether there was room."""
        if len(self._running) >= self._max_running:
            return False
        if place.claim is not None and not place.claim.is_wanted:
            place.claim.ends_with_store = True
        task = asyncio.create_task(self._store(place, answer))
        self._running.add(task)
        task.add_done_callback(self._running.discard)
        return True

    async def drain(self) -> None:
        """Waits for all answers on their way; each is bounded by its own budget."""
        while self._running:
            await asyncio.wait(set(self._running))

    async def _store(self, place: CachePlace, answer: cache_pb2.CachedAnswer) -> None:
        try:
            await self._cache.store(place, answer, budget=Budget.of(STORE_BUDGET_S, self._clock))
        except TiermeshError as error:
            _log.debug("an answer was not stored", reason=error.reason, error=error.message)


class BackgroundReruns:
    """Requests that are run again because their answer has become stale.

    Args:
        max_running: Requests that may run at once. Further ones wait for their next stale hit.
    """

    def __init__(self, *, max_running: int = 4) -> None:
        self._max_running = max_running
        self._running: dict[bytes, asyncio.Task[None]] = {}

    def start(self, key: cache_pb2.CacheKey, rerun: Callable[[], Coroutine[None, None, None]]) -> bool:
        """Begins a rerun; returns whether there was room and the same request is not running already."""
        name = key.fingerprint
        if name in self._running or len(self._running) >= self._max_running:
            return False
        task = asyncio.create_task(self._run(rerun))
        self._running[name] = task
        task.add_done_callback(lambda _: self._running.pop(name, None))
        return True

    async def drain(self, within_s: float = RERUN_DRAIN_S) -> None:
        """Waits for all reruns, and cancels those that have not ended within `within_s` seconds."""
        if self._running:
            _, late = await asyncio.wait(self._running.values(), timeout=within_s)
            for task in late:
                task.cancel()
            if late:
                await asyncio.wait(late)

    async def _run(self, rerun: Callable[[], Coroutine[None, None, None]]) -> None:
        try:
            await rerun()
        except TiermeshError as error:
            _log.debug("a stale answer was not made anew", reason=error.reason, error=error.message)
