"""Composition root of the log of outcomes."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from pathlib import Path

from opentelemetry.metrics import Meter
from tiermesh.api.outcome.v1 import outcome_pb2_grpc
from tiermesh.outcomes.adapters.sqlite import open_outcomes
from tiermesh.outcomes.drift.measure import Marks
from tiermesh.outcomes.drift.monitor import DriftMonitor
from tiermesh.outcomes.drift.reference import WrongReferenceError, read_reference
from tiermesh.outcomes.log import ARRIVAL_S, OutcomeLog
from tiermesh.outcomes.metrics import OutcomeMetrics
from tiermesh.outcomes.ports import OutcomeStore, Selection
from tiermesh.outcomes.redaction import redact_outcome
from tiermesh.outcomes.servicer import SERVICE, OutcomeServicer
from tiermesh.shared.clock import SYSTEM_CLOCK, Clock
from tiermesh.shared.config import OutcomesConfig
from tiermesh.shared.process import Process
from tiermesh.shared.rpc import Service, open_server, serve_until_signal
from tiermesh.shared.telemetry import get_logger

FILE = "outcomes/outcomes.db"
"""In the state folder."""
_log = get_logger(__name__)


@asynccontextmanager
async def wire(
    settings: OutcomesConfig,
    store: OutcomeStore,
    *,
    clock: Clock = SYSTEM_CLOCK,
    meter: Meter | None = None,
    arrival_s: float = ARRIVAL_S,
) -> AsyncIterator[Service]:
    """Builds the service over a store, which is used in a thread of its own until the block is left.

    Args:
        settings: The section `outcomes`.
        store: What the log is kept in.
        clock: Time.
        meter: Makes instruments; without one nothing is counted.
        arrival_s: Longest time that an opinion waits for the record of its request, in seconds.
    """
    with ThreadPoolExecutor(max_workers=1, thread_name_prefix="outcomes") as thread:
        drift = make_monitor(settings)
        metrics = OutcomeMetrics(meter, drift=drift.measure if drift is not None else tuple)
        log = OutcomeLog(
            store,
            thread,
            settings,
            redact=redact_outcome,
            filed=drift.observe if drift is not None else lambda _: None,
            judged=metrics.filed,
            clock=clock,
            arrival_s=arrival_s,
        )
        if drift is not None:
            # What came before the restart is still the window.
            async for page in log.pages(Selection(), limit=settings.drift_window):
                drift.observe(page)
        servicer = OutcomeServicer(log, drift)
        yield Service(SERVICE, lambda server: outcome_pb2_grpc.add_OutcomeServiceServicer_to_server(servicer, server))


def make_monitor(settings: OutcomesConfig) -> DriftMonitor | None:
    """Returns what watches for drift; None where there is no reference, or one that cannot be read, which is told."""
    if settings.drift_reference is None:
        return None
    try:
        reference = read_reference(settings.drift_reference)
    except WrongReferenceError as error:
        # What came of requests is worth keeping all the same.
        _log.error("drift is not measured", error=str(error))
        return None
    marks = Marks(settings.drift_watch, settings.drift_alert)
    return DriftMonitor(reference, window=settings.drift_window, marks=marks)


async def run(process: Process) -> None:
    """Serves until the process is told to stop."""
    store = await asyncio.to_thread(open_outcomes, Path(process.state) / FILE)
    try:
        with process.open_meter("tiermesh-outcomes") as meter:
            await _serve(process, store, meter)
    finally:
        store.close()


async def _serve(process: Process, store: OutcomeStore, meter: Meter | None) -> None:
    config = process.config
    async with (
        process.open_tracing("tiermesh-outcomes") as tracing,
        wire(config.outcomes, store, meter=meter) as service,
        open_server(
            [service],
            address=process.address,
            tls=process.server_tls(),
            tracing=tracing,
            default_deadline_s=config.deadlines.max_ms / 1000,
            drain_s=config.drain_s,
        ) as server,
    ):
        await server.set_serving(True)
        _log.info("serving", address=process.address, texts=config.outcomes.keep_text)
        await serve_until_signal(server, drain_s=config.drain_s)
