"""Runs that are shared with the routers beside this one, through the cache service.

    here     a miss is claimed in the lookup ─► run ─► (wanted elsewhere? ─► its events are published) ─► claim ends
    there    a miss is claimed already ───────► follow ─► events ─► end; or nothing any more: look up again

This router holds one stream to the cache for all its runs. While that is not open it claims nothing, and all
goes on as if it were alone.
"""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Callable, Coroutine
from contextlib import aclosing
from typing import Any

from opentelemetry.trace import NonRecordingSpan, SpanContext, TraceFlags, use_span
from tiermesh.router.call import Call
from tiermesh.router.coalescing.claim import Claim, trace_parent_of
from tiermesh.router.coalescing.flight import Events, Flight
from tiermesh.router.coalescing.key import RunKey
from tiermesh.router.coalescing.messages import event_of
from tiermesh.router.coalescing.publisher import PUBLISH_S, Publisher
from tiermesh.router.ports import RunsPort
from tiermesh.shared.budget import Budget
from tiermesh.shared.clock import Clock
from tiermesh.shared.errors import StreamBroken, TiermeshError
from tiermesh.shared.telemetry import get_logger

_STREAM_S = 600.0
"""After so long the stream is opened anew, perhaps to another replica."""
_PAUSE_S, _LONGEST_PAUSE_S = 0.1, 5.0
_OFF_S = 1.0
LOOKUP_S = 0.05
"""How long the answer to a lookup that has claimed a run may still be on its way."""
_MAX_PUBLISHED = 256
"""Runs published at once; whoever waits for a further one runs it."""
_log = get_logger(__name__)


class NeighbourRuns:
    """What this router shares with others.

    Args:
        runs: The cache service; None for a router that shares nothing.
        clock: Time.
        publish_s: Seconds that one call of a publisher may take.
        lookup_s: Seconds that the answer to a lookup that has claimed a run may still be on its way.
    """

    def __init__(
        self, runs: RunsPort | None, clock: Clock, *, publish_s: float = PUBLISH_S, lookup_s: float = LOOKUP_S
    ) -> None:
        self.router = secrets.token_hex(8)
        """This router's identifier."""
        self.is_heard = asyncio.Event()
        """Set while the stream is open."""
        self._runs = runs
        self._clock = clock
        self._publish_s = publish_s
        self._lookup_s = lookup_s
        self._led: dict[str, Flight] = {}
        self._publishing: dict[str, Publisher] = {}
        self._awaited: dict[str, asyncio.Event] = {}
        """Claims that are wanted elsewhere, and of which this router has not heard yet."""
        self._tasks: set[asyncio.Task[None]] = set()

    def claim(self, key: RunKey, call: Call) -> Claim | None:
        """Returns the claim to make in a request's lookup; None where its run is not shared with others."""
        if not self.is_heard.is_set() or key.batch or key.progressive:
            return None
        if call.snapshot.config.cache.coalescing != "mesh":
            return None
        return Claim(self.router, trace_parent_of(call.span.get_span_context()))

    def lead(self, claim: Claim | None, flight: Flight) -> None:
        """Takes note of a run, if its claim counts."""
        if claim is not None and claim.token and flight.claim is None:
            flight.claim = claim
            self._led[claim.token] = flight
            awaited = self._awaited.get(claim.token)
            if awaited is not None:
                awaited.set()

    def ended(self, flight: Flight) -> None:
        """Ends the claim of a run that has ended, unless storing its answer does so."""
        claim = flight.claim
        if claim is None or self._led.pop(claim.token, None) is None or claim.ends_with_store:
            return
        self._start(self._end(claim.token, self._publishing.get(claim.token)))

    async def follow(self, token: str, *, max_s: float) -> Events:
        """Streams a run that another router leads, for at most `max_s` seconds.

        Raises:
            TiermeshError: the run failed, or ended without its end: its router is gone.
        """
        assert self._runs is not None
        async with aclosing(self._runs.follow(token, budget=Budget.of(max_s, self._clock))) as messages:
            async for message in messages:
                event = event_of(message)
                if event is not None:
                    yield event
                if message.HasField("done"):
                    return
        raise StreamBroken("the router that ran this request for others is gone")

    async def run(self, *, enabled: Callable[[], bool]) -> None:
        """Hears what others want, until cancelled.

        Args:
            enabled: Whether runs are to be shared with other routers at the moment.
        """
        pause = 0.0
        # An unsampled parent keeps the stream out of every trace.
        nowhere = SpanContext(secrets.randbits(128), secrets.randbits(64), is_remote=False, trace_flags=TraceFlags(0))
        with use_span(NonRecordingSpan(nowhere), record_exception=False, set_status_on_exception=False):
            while True:
                if not enabled():
                    await asyncio.sleep(_OFF_S)
                    continue
                began = self._clock.monotonic()
                await self._hear()
                # One that lasted has ended in its time, and is opened again at once.
                lasted = self._clock.monotonic() - began > _LONGEST_PAUSE_S
                pause = 0.0 if lasted else min(_LONGEST_PAUSE_S, pause * 2 + _PAUSE_S)
                await asyncio.sleep(pause)

    async def _hear(self) -> None:
        assert self._runs is not None
        try:
            async with aclosing(self._runs.lead(self.router, budget=Budget.of(_STREAM_S, self._clock))) as heard:
                async for tokens in heard:
                    self.is_heard.set()
                    for token in tokens:
                        self._wanted(token)
        except TiermeshError as error:
            _log.debug("the cache no longer says whose runs are wanted", reason=error.reason)
        finally:
            self.is_heard.clear()

    async def drain(self) -> None:
        """Waits for what is still to be said, but for no lookup; each step is bounded by its own budget."""
        while self._tasks:
            for arrived in self._awaited.values():
                arrived.set()
            await asyncio.wait(set(self._tasks))

    def _wanted(self, token: str) -> None:
        assert self._runs is not None
        publisher = self._publishing.get(token)
        if publisher is not None:
            publisher.look()
        elif len(self._publishing) < _MAX_PUBLISHED:
            publisher = self._publishing[token] = Publisher(self._runs, token, self._clock, publish_s=self._publish_s)
            self._start(self._publish(token, publisher))

    async def _publish(self, token: str, publisher: Publisher) -> None:
        try:
            flight = self._led.get(token) or await self._on_its_way(token)
            if flight is None:
                await publisher.disown()
            else:
                await publisher.run(flight)
        except TiermeshError as error:
            # Whoever waits elsewhere will run it there.
            _log.debug("a shared run was not published", reason=error.reason)
        finally:
            publisher.done.set()
            self._publishing.pop(token, None)

    async def _on_its_way(self, token: str) -> Flight | None:
        """Waits for the run of a lookup whose answer is on its way, or was lost on it."""
        arrived = self._awaited[token] = asyncio.Event()
        try:
            async with asyncio.timeout(self._lookup_s):
                await arrived.wait()
        except TimeoutError:
            return None
        finally:
            del self._awaited[token]
        return self._led.get(token)

    async def _end(self, token: str, publisher: Publisher | None) -> None:
        assert self._runs is not None
        if publisher is not None:
            await publisher.done.wait()
        try:
            await Publisher(self._runs, token, self._clock, publish_s=self._publish_s).disown()
        except TiermeshError as error:
            _log.debug("a run's claim was not ended", reason=error.reason)

    def _start(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
