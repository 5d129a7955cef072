"""The log: files records and opinions from many callers, in one thread of its own, and lists them."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

from tiermesh.api.outcome.v1 import record_pb2
from tiermesh.outcomes.arrivals import Arrivals
from tiermesh.outcomes.ports import START, Holdings, OutcomeStore, Selection
from tiermesh.shared.budget import Budget
from tiermesh.shared.clock import Clock
from tiermesh.shared.config import OutcomesConfig
from tiermesh.shared.errors import UnknownRequest
from tiermesh.shared.outcomes import is_sampled
from tiermesh.shared.telemetry import get_logger

ARRIVAL_S = 3.0
"""Seconds that an opinion waits for the record of its request. Routers send records within a tenth of a second."""
PAGE = 200
"""Records read at once; between two pages others may write."""
TRIM_EVERY = 2000
"""Records filed between two looks at the log's size."""
_DAY_US = 86_400_000_000
_T = TypeVar("_T")
_log = get_logger(__name__)


class OutcomeLog:
    """Files and lists.

    Args:
        store: What the log is kept in.
        thread: One thread, in which the store is used.
        settings: Size, age and sampling.
        redact: Takes personal data out of a record's texts, in place.
        filed: Told of new records, in the event loop.
        judged: Told of opinions, likewise.
        clock: Time.
        arrival_s: Longest time that an opinion waits for the record of its request, in seconds.
    """

    def __init__(
        self,
        store: OutcomeStore,
        thread: ThreadPoolExecutor,
        settings: OutcomesConfig,
        *,
        redact: Callable[[record_pb2.Outcome], None],
        filed: Callable[[Sequence[record_pb2.Outcome]], None],
        judged: Callable[[record_pb2.Feedback], None],
        clock: Clock,
        arrival_s: float = ARRIVAL_S,
    ) -> None:
        self._store = store
        self._thread = thread
        self._settings = settings
        self._redact = redact
        self._filed = filed
        self._judged = judged
        self._clock = clock
        self._arrival_s = arrival_s
        self._arrivals = Arrivals()
        self._since_trim = TRIM_EVERY
        self.rotated_count = 0
        """Records dropped so far for the log's size or their age."""

    async def record(self, outcomes: Sequence[record_pb2.Outcome]) -> int:
        """Files records; returns how many were new.

        Raises:
            Unavailable: they could not be written.
        """
        new = await self._in_thread(lambda: self._write(outcomes))
        self._arrivals.arrived((outcome.tenant, outcome.request_id) for outcome in new)
        self._filed(new)
        return len(new)

    async def add_feedback(
        self, tenant: str, request_id: str, feedback: record_pb2.Feedback, *, budget: Budget
    ) -> bool:
        """Files an opinion; returns False where the request is not among those sampled.

        Raises:
            UnknownRequest: the tenant has no such request in the log, and none came within a moment.
            Unavailable: it could not be written.
        """
        filed = record_pb2.Feedback()
        filed.CopyFrom(feedback)
        filed.reported.FromMicroseconds(round(self._clock.wall() * 1e6))
        async with self._arrivals.expecting(tenant, request_id) as arrival:
            if await self._add(tenant, request_id, filed):
                return True
            if not is_sampled(request_id, self._settings.sample):
                return False
            # A quarter is kept back, for the answer to be "unknown" rather than "too late".
            wait = budget.child(cap=self._arrival_s, reserve=budget.remaining() / 4).remaining()
            if arrival is not None and await _is_set(arrival, wait) and await self._add(tenant, request_id, filed):
                return True
        raise UnknownRequest(f"the log has no request {request_id} of this tenant", field="request_id")

    async def _add(self, tenant: str, request_id: str, feedback: record_pb2.Feedback) -> bool:
        found = await self._in_thread(lambda: self._store.add_feedback(tenant, request_id, feedback))
        if found:
            self._judged(feedback)
        return found

    async def pages(self, selection: Selection, *, limit: int = 0) -> AsyncIterator[Sequence[record_pb2.Outcome]]:
        """Yields pages of records, oldest first.

        Args:
            selection: Which.
            limit: Most records, the newest of them; 0 for all.

        Raises:
            Unavailable: the log cannot be read.
        """
        after = START
        if limit:
            after = await self._in_thread(lambda: self._store.place_of_newest(selection, limit))
        left = limit or None
        while left is None or left > 0:
            count, place = PAGE if left is None else min(PAGE, left), after
            page, after = await self._in_thread(lambda: self._store.page(selection, after=place, count=count))  # noqa: B023 -- awaited here
            if not page:
                return
            if left is not None:
                left -= len(page)
            yield page

    async def holdings(self) -> Holdings:
        """Returns what the log holds.

        Raises:
            Unavailable: it cannot be read.
        """
        return await self._in_thread(self._store.holdings)

    def _write(self, outcomes: Sequence[record_pb2.Outcome]) -> list[record_pb2.Outcome]:
        for outcome in outcomes:
            # Opinions come by themselves, each with its own check of whose request it is.
            outcome.ClearField("feedback")
            if not self._settings.keep_text:
                outcome.ClearField("text")
            elif outcome.HasField("text"):
                self._redact(outcome)
        new = self._store.add(outcomes)
        self._since_trim += len(new)
        if self._since_trim >= TRIM_EVERY:
            self._since_trim = 0
            self._trim()
        return new

    def _trim(self) -> None:
        before = round(self._clock.wall() * 1e6) - self._settings.max_age_days * _DAY_US
        dropped = self._store.trim(max_bytes=self._settings.max_size_mb * 2**20, before_us=before)
        if dropped:
            self.rotated_count += dropped
            _log.info("old records of outcomes were dropped", count=dropped)

    async def _in_thread(self, work: Callable[[], _T]) -> _T:
        return await asyncio.get_running_loop().run_in_executor(self._thread, work)


async def _is_set(event: asyncio.Event, within_s: float) -> bool:
    try:
        async with asyncio.timeout(within_s):
            await event.wait()
    except TimeoutError:
        return False
    return True
