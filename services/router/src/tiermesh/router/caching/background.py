"""Stale answers that are made anew after their callers have been served."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine

from tiermesh.api.cache.v1 import cache_pb2
from tiermesh.shared.errors import TiermeshError
from tiermesh.shared.telemetry import get_logger

RERUN_DRAIN_S = 5.0
"""Seconds that reruns may take to finish on shutdown; the next stale hit makes up for one that is given up."""
_log = get_logger(__name__)


class BackgroundReruns:
    """Requests that are run again because their answer has become stale.

    Args:
        max_running: Requests that may run at once. Further ones wait for their next stale hit.
        drain_s: Seconds that `drain` waits by default.
    """

    def __init__(self, *, max_running: int = 4, drain_s: float = RERUN_DRAIN_S) -> None:
        self._max_running = max_running
        self._drain_s = drain_s
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

    async def drain(self, within_s: float | None = None) -> None:
        """Waits for all reruns, and cancels those that have not ended within `within_s` seconds."""
        if self._running:
            within_s = self._drain_s if within_s is None else within_s
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
