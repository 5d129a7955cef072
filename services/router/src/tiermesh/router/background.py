"""Stores answers after their callers have been served."""

from __future__ import annotations

import asyncio

from tiermesh.api.cache.v1 import cache_pb2
from tiermesh.router.ports import CachePort
from tiermesh.shared.budget import Budget
from tiermesh.shared.clock import Clock
from tiermesh.shared.errors import TiermeshError
from tiermesh.shared.telemetry import get_logger

STORE_BUDGET_S = 1.0
"""Seconds that storing one answer may take."""
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

    def start(self, key: cache_pb2.CacheKey, answer: cache_pb2.CachedAnswer) -> bool:
        """Begins to store an answer; returns whether there was room."""
        if len(self._running) >= self._max_running:
            return False
        task = asyncio.create_task(self._store(key, answer))
        self._running.add(task)
        task.add_done_callback(self._running.discard)
        return True

    async def drain(self) -> None:
        """Waits for all answers on their way; each is bounded by its own budget."""
        while self._running:
            await asyncio.wait(set(self._running))

    async def _store(self, key: cache_pb2.CacheKey, answer: cache_pb2.CachedAnswer) -> None:
        try:
            await self._cache.store(key, answer, budget=Budget.of(STORE_BUDGET_S, self._clock))
        except TiermeshError as error:
            _log.debug("an answer was not stored", reason=error.reason, error=error.message)
