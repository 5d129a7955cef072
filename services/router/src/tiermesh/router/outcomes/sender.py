"""Takes records of outcomes off the hot path: a bounded queue, and one call to the log at a time.

A request only has its record queued, after its end has been handed over. A record waits for others for
a moment, or for none once there are enough, since a call costs the mesh more than what it carries. While
a call is under way the queue grows. A log that does not answer is tried again with
growing pauses; where the queue is full its oldest records are dropped, and counted.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from contextlib import suppress

from tiermesh.api.outcome.v1 import record_pb2
from tiermesh.router.ports import OutcomeLog
from tiermesh.router.telling.metrics import RequestMetrics
from tiermesh.shared.budget import Budget
from tiermesh.shared.clock import Clock
from tiermesh.shared.errors import InvalidRequest, TiermeshError
from tiermesh.shared.telemetry import get_logger

BATCH = 200
"""Most records of one call; as many that wait leave at once."""
LINGER_S = 0.1
"""Seconds that a record waits for others; the log lets feedback wait for its record longer than that."""
MAX_BYTES = 32 * 1024 * 1024
"""Most bytes that the queue holds, whatever its length: records with texts are long."""
CALL_S = 2.0
"""Seconds that one call may take."""
DRAIN_S = 2.0
"""Seconds that what is queued may take to leave on shutdown."""
_FIRST_PAUSE_S, _LONGEST_PAUSE_S = 0.1, 5.0
_log = get_logger(__name__)


class OutcomeSender:
    """Records on their way to the log.

    Args:
        log: Where they go.
        clock: Time for the budgets of calls.
        metrics: Counts what is filed and what is dropped.
        max_records: Most records that wait.
        linger_s: Seconds that a record waits for others.
        call_s: Seconds that one call may take.
    """

    def __init__(
        self,
        log: OutcomeLog,
        clock: Clock,
        metrics: RequestMetrics,
        *,
        max_records: int = 4096,
        linger_s: float = LINGER_S,
        call_s: float = CALL_S,
    ) -> None:
        self._outcomes = log
        self._clock = clock
        self._metrics = metrics
        self._max_records = max_records
        self._linger_s = linger_s
        self._call_s = call_s
        self._waiting: deque[tuple[record_pb2.Outcome, int]] = deque()
        self._size_bytes = 0
        self._arrived = asyncio.Event()
        self._hurry = asyncio.Event()
        self._idle = asyncio.Event()
        self._idle.set()
        self._well = True
        self._draining = False

    def __len__(self) -> int:
        return len(self._waiting)

    def offer(self, make: Callable[[], record_pb2.Outcome]) -> None:
        """Queues what `make` returns; it is called once whatever is ready now has run."""
        asyncio.get_running_loop().call_soon(self._add, make)

    async def run(self) -> None:
        """Sends until cancelled."""
        pause_s = _FIRST_PAUSE_S
        while True:
            await self._arrived.wait()
            if self._waiting:
                await self._linger()
            batch = [self._waiting[n] for n in range(min(BATCH, len(self._waiting)))]
            if not batch:
                self._arrived.clear()
                self._idle.set()
                continue
            try:
                await self._outcomes.record(
                    [record for record, _ in batch], budget=Budget.of(self._call_s, self._clock)
                )
            except InvalidRequest as error:
                # Sending it again would fail again, and hold up the rest for ever.
                _log.error("the log of outcomes refuses records", error=error.message)
                self._metrics.outcomes_dropped(len(batch))
            except TiermeshError as error:
                self._report(well=False, why=error.reason)
                await asyncio.sleep(pause_s)
                pause_s = min(_LONGEST_PAUSE_S, pause_s * 2)
                continue
            else:
                self._report(well=True)
                self._metrics.outcomes_filed(len(batch))
            pause_s = _FIRST_PAUSE_S
            self._remove(batch)

    async def drain(self, within_s: float = DRAIN_S) -> None:
        """Waits until everything queued has left, for at most `within_s` seconds; `run` must be running."""
        # What has been offered is added by the loop's next turn.
        await asyncio.sleep(0)
        self._draining = True
        self._hurry.set()
        try:
            async with asyncio.timeout(within_s):
                await self._idle.wait()
        except TimeoutError:
            _log.warning("records of outcomes are lost: the log did not take them", count=len(self._waiting))
        finally:
            self._draining = False

    async def _linger(self) -> None:
        """Waits for more records to leave with, unless there are enough or the queue is to be emptied."""
        if not self._is_enough and not self._draining:
            with suppress(TimeoutError):
                async with asyncio.timeout(self._linger_s):
                    await self._hurry.wait()
        self._hurry.clear()

    def _add(self, make: Callable[[], record_pb2.Outcome]) -> None:
        try:
            record = make()
        except Exception as error:
            # A defect here must not be one of the request, which has ended well.
            _log.error("an outcome could not be recorded", exc_info=error)
            self._metrics.outcomes_dropped(1)
            return
        size = record.ByteSize()
        self._waiting.append((record, size))
        self._size_bytes += size
        dropped = 0
        while len(self._waiting) > self._max_records or (self._size_bytes > MAX_BYTES and len(self._waiting) > 1):
            self._size_bytes -= self._waiting.popleft()[1]
            dropped += 1
        if dropped:
            self._metrics.outcomes_dropped(dropped)
        self._idle.clear()
        self._arrived.set()
        if self._is_enough:
            self._hurry.set()

    @property
    def _is_enough(self) -> bool:
        """Whether what waits may leave at once: a whole batch, or half of what the queue holds."""
        enough = min(BATCH, self._max_records // 2)
        return len(self._waiting) >= enough or self._size_bytes >= MAX_BYTES // 2

    def _remove(self, batch: list[tuple[record_pb2.Outcome, int]]) -> None:
        """Takes out what has been sent and was not dropped meanwhile."""
        sent = {id(record) for record, _ in batch}
        while self._waiting and id(self._waiting[0][0]) in sent:
            self._size_bytes -= self._waiting.popleft()[1]

    def _report(self, *, well: bool, why: str = "") -> None:
        if well == self._well:
            return
        self._well = well
        if well:
            _log.info("the log of outcomes takes records again", waiting=len(self._waiting))
        else:
            _log.warning("the log of outcomes does not answer; the newest records wait for it", reason=why)
