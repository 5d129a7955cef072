"""Answers on their way to the cache: queued when their callers have been served, sent several at a time.

A call for every answer would cost the mesh about as much as looking it up did. An answer waits
for others for a moment, or for none at all once there are enough; one call is under way at a time.
A cache that cannot keep up must not fill the router's memory: where the queue is full, answers are
dropped, and counted.
"""

from __future__ import annotations

import asyncio
from collections import deque
from contextlib import suppress
from contextvars import Context

from opentelemetry.trace import get_current_span
from tiermesh.api.cache.v1 import cache_pb2
from tiermesh.router.caching.place import CachePlace, Keeping
from tiermesh.router.ports import CachePort
from tiermesh.router.telling.metrics import RequestMetrics
from tiermesh.shared.budget import Budget
from tiermesh.shared.clock import Clock
from tiermesh.shared.errors import TiermeshError
from tiermesh.shared.telemetry import get_logger

BATCH = 64
"""Most answers of one call; as many that wait leave at once."""
LINGER_S = 0.03
"""Seconds that an answer waits for others. For that much longer, the same request is answered anew."""
MAX_BYTES = 16 * 1024 * 1024
"""Most bytes that wait; far below what one message may have."""
CALL_S = 1.0
"""Seconds that one call may take."""
DRAIN_S = 2.0
"""Seconds that what is queued may take to leave on shutdown."""
_log = get_logger(__name__)


class StoreQueue:
    """Takes answers to the cache.

    Args:
        cache: Where they go.
        clock: Time for the budgets of calls.
        metrics: Counts what is kept and what is not.
        max_waiting: Most answers that wait.
        linger_s: Seconds that an answer waits for others.
        call_s: Seconds that one call may take.
        drain_s: Seconds that `drain` waits by default.
    """

    def __init__(
        self,
        cache: CachePort,
        clock: Clock,
        metrics: RequestMetrics | None = None,
        *,
        max_waiting: int = 256,
        linger_s: float = LINGER_S,
        call_s: float = CALL_S,
        drain_s: float = DRAIN_S,
    ) -> None:
        self._cache = cache
        self._clock = clock
        self._metrics = metrics or RequestMetrics()
        self._max_waiting = max_waiting
        self._linger_s = linger_s
        self._call_s = call_s
        self._drain_s = drain_s
        self._waiting: deque[tuple[Keeping, int]] = deque()
        self._size_bytes = 0
        self._hurry = asyncio.Event()
        self._sending: asyncio.Task[None] | None = None

    def put(self, place: CachePlace, answer: cache_pb2.CachedAnswer) -> bool:
        """Queues the answer to the current request; returns whether there was room."""
        size = answer.ByteSize()
        if len(self._waiting) >= self._max_waiting or self._size_bytes + size > MAX_BYTES:
            self._metrics.stores("dropped", 1)
            return False
        if place.claim is not None and not place.claim.is_wanted:
            place.claim.ends_with_store = True
        self._waiting.append((Keeping(place, answer, get_current_span().get_span_context()), size))
        self._size_bytes += size
        if len(self._waiting) >= BATCH:
            self._hurry.set()
        if self._sending is None:
            # In a context of its own: it outlives this request, and works for others too.
            self._sending = asyncio.get_running_loop().create_task(self._send(), context=Context())
        return True

    async def drain(self, within_s: float | None = None) -> None:
        """Waits until everything queued has left, and gives up what has not within `within_s` seconds."""
        sending = self._sending
        if sending is None:
            return
        self._hurry.set()
        _, late = await asyncio.wait({sending}, timeout=self._drain_s if within_s is None else within_s)
        if late:
            _log.warning("answers are lost: the cache did not take them", waiting=len(self._waiting))
            sending.cancel()
            await asyncio.wait({sending})

    async def _send(self) -> None:
        try:
            while self._waiting:
                if len(self._waiting) < BATCH:
                    with suppress(TimeoutError):
                        async with asyncio.timeout(self._linger_s):
                            await self._hurry.wait()
                self._hurry.clear()
                batch = [self._take() for _ in range(min(BATCH, len(self._waiting)))]
                await self._send_batch(batch)
        finally:
            self._sending = None

    async def _send_batch(self, batch: list[Keeping]) -> None:
        try:
            kept = await self._cache.store(batch, budget=Budget.of(self._call_s, self._clock))
        except TiermeshError as error:
            self._metrics.stores("failed", len(batch))
            _log.debug("answers were not stored", count=len(batch), reason=error.reason, error=error.message)
        except Exception as error:
            # A defect in one call must not end all the others.
            self._metrics.stores("failed", len(batch))
            _log.error("unexpected error in storing answers", exc_info=error)
        else:
            self._metrics.stores("kept", kept)
            self._metrics.stores("refused", len(batch) - kept)

    def _take(self) -> Keeping:
        keeping, size = self._waiting.popleft()
        self._size_bytes -= size
        return keeping
