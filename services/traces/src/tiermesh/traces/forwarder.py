"""Sends what was received to the operator's collector, in the background.

Nobody waits for it: senders only add to a bounded backlog. A collector that is away is tried
again with growing pauses; a batch is given up after about a minute and a half, and the next is
tried.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from tiermesh.shared.telemetry import get_logger
from tiermesh.traces.backlog import Backlog
from tiermesh.traces.ports import Collector, CollectorRefused, CollectorUnavailable

_log = get_logger(__name__)
_FIRST_PAUSE_S, _LONGEST_PAUSE_S = 0.2, 5.0
_ATTEMPTS = 20
"""Of one batch. It is dropped then, lest one that the collector chokes on hold up the rest for ever."""


class Forwarder:
    """Forwards export requests one batch at a time.

    Args:
        collector: Where to.
        backlog: What waits.
        pause: Waits for so many seconds.
    """

    def __init__(
        self,
        collector: Collector,
        backlog: Backlog,
        *,
        pause: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        self._collector = collector
        self._backlog = backlog
        self._pause = pause
        self._waiting = asyncio.Event()
        self._idle = asyncio.Event()
        self._idle.set()
        self._well = True
        self.offered_count = 0
        """Requests taken so far."""
        self.lost_batches = 0
        """Batches that the collector refused, or that were tried too often."""

    def offer(self, request: bytes) -> None:
        """Takes a request to forward; returns at once."""
        self._backlog.add(request)
        self.offered_count += 1
        self._idle.clear()
        self._waiting.set()

    async def run(self) -> None:
        """Forwards until cancelled."""
        while True:
            await self._waiting.wait()
            self._waiting.clear()
            while batch := self._backlog.take():
                await self._deliver(batch)
            self._idle.set()

    async def flush(self, within_s: float) -> None:
        """Waits until everything offered has been dealt with, for at most `within_s` seconds."""
        try:
            async with asyncio.timeout(within_s):
                await self._idle.wait()
        except TimeoutError:
            return

    async def _deliver(self, batch: bytes) -> None:
        pause_s = _FIRST_PAUSE_S
        for _ in range(_ATTEMPTS):
            try:
                await self._collector.export(batch)
            except CollectorUnavailable as error:
                self._report(well=False, why=str(error))
                await self._pause(pause_s)
                pause_s = min(pause_s * 2, _LONGEST_PAUSE_S)
            except CollectorRefused as error:
                self.lost_batches += 1
                self._report(well=False, why=str(error))
                return
            except Exception as error:
                # A defect in one delivery must not end all the others.
                self.lost_batches += 1
                _log.error("unexpected error in forwarding spans", exc_info=error)
                return
            else:
                self._report(well=True)
                return
        self.lost_batches += 1

    def _report(self, *, well: bool, why: str = "") -> None:
        if well == self._well:
            return
        self._well = well
        counts = {"dropped_requests": self._backlog.dropped_requests, "lost_batches": self.lost_batches}
        if well:
            _log.info("the trace collector takes spans again", **counts)
        else:
            _log.warning("the trace collector does not take spans; the newest are kept for it", error=why, **counts)
