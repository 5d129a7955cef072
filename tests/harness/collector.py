"""An OTLP receiver on a thread of its own, for a mesh that lives longer than one test's event loop."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Iterator
from collections.abc import Set as AbstractSet
from contextlib import contextmanager
from dataclasses import dataclass

from harness.otlp import MetricsReceiver, OtlpReceiver, ReceivedSpan, running_otlp


@dataclass(frozen=True)
class Collector:
    """A running receiver."""

    endpoint: str
    receiver: OtlpReceiver
    metrics: MetricsReceiver
    loop: asyncio.AbstractEventLoop

    async def trace(
        self, trace_id: str, complete: Callable[[list[ReceivedSpan]], object], *, within_s: float = 60.0
    ) -> list[ReceivedSpan]:
        """Waits until a trace is complete by the caller's own measure, and returns its spans.

        Raises:
            TimeoutError: it was not within `within_s` seconds; the message names what had come.
        """

        async def wait() -> list[ReceivedSpan]:
            await self.receiver.until(lambda: complete(self.receiver.of_trace(trace_id)), within_s=within_s)
            return self.receiver.of_trace(trace_id)

        try:
            return await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(wait(), self.loop))
        except TimeoutError:
            seen = [(span.service, span.name) for span in self.receiver.of_trace(trace_id)]
            raise TimeoutError(f"trace {trace_id} has only {seen}") from None

    async def whole_trace(
        self, trace_id: str, complete: Callable[[list[ReceivedSpan]], object]
    ) -> list[ReceivedSpan] | None:
        """Returns a complete trace, or None where it does not become one.

        Nobody sends spans again that this receiver, not run for two seconds, did not take: then ask the mesh once more.
        """
        try:
            return await self.trace(trace_id, complete, within_s=15.0)
        except TimeoutError:
            return None

    async def measured(self, wanted: AbstractSet[tuple[str, str]], *, within_s: float = 60.0) -> None:
        """Waits until metrics of all these services and names have come.

        Raises:
            TimeoutError: they had not within `within_s` seconds; the message names what is missing.
        """
        wait = self.metrics.until(lambda: wanted <= self.metrics.attributes.keys(), within_s=within_s)
        try:
            await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(wait, self.loop))
        except TimeoutError:
            come = set(self.metrics.attributes.copy())
            raise TimeoutError(f"no metrics {sorted(wanted - come)}; there are {sorted(come)}") from None


@contextmanager
def running_collector() -> Iterator[Collector]:
    """Listens for OTLP on a free port until the block is left."""
    started: list[Collector] = []
    ready, stop = threading.Event(), asyncio.Event()

    async def serve() -> None:
        async with running_otlp() as otlp:
            started.append(Collector(otlp.endpoint, otlp.receiver, otlp.metrics, asyncio.get_running_loop()))
            ready.set()
            await stop.wait()

    thread = threading.Thread(target=lambda: asyncio.run(serve()), name="otlp-collector")
    thread.start()
    if not ready.wait(60):
        raise RuntimeError("the OTLP receiver did not start within 60 s")
    try:
        yield started[0]
    finally:
        started[0].loop.call_soon_threadsafe(stop.set)
        thread.join(60)
