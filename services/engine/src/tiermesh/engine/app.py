"""Composition root: which backend, behind which engine, on which port."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path

from opentelemetry.metrics import Meter
from tiermesh.engine.adapters.simulated import SimulatedBackend
from tiermesh.engine.adapters.vllm_start import open_vllm
from tiermesh.engine.engine import END_RESERVE_S, Engine
from tiermesh.engine.ports import Backend
from tiermesh.engine.servicer import EngineServicer
from tiermesh.shared.clock import SYSTEM_CLOCK, Clock
from tiermesh.shared.config import TierConfig
from tiermesh.shared.process import Process
from tiermesh.shared.rpc import RunningServer, open_server, serve_until_signal
from tiermesh.shared.telemetry import get_logger

_log = get_logger(__name__)


def wire(
    tier: TierConfig,
    *,
    clock: Clock,
    end_reserve_s: float = END_RESERVE_S,
    weights: Mapping[str, float] | None = None,
    meter: Meter | None = None,
) -> tuple[Engine, EngineServicer]:
    """Builds the engine of a tier and its servicer; `Engine.begin` gives it a backend later."""
    engine = Engine(tier, clock=clock, end_reserve_s=end_reserve_s, weights=weights)
    servicer = EngineServicer(engine, model=tier.public_model, simulated=tier.backend == "simulated", meter=meter)
    return engine, servicer


@asynccontextmanager
async def open_backend(
    tier: TierConfig, *, rules_path: Path, environ: Mapping[str, str], clock: Clock
) -> AsyncIterator[Backend]:
    """Opens the backend that `tier.backend` names; only that one is imported.

    Raises:
        ModelLoadFailed: the model could not be found or loaded.
    """
    if tier.backend == "rules":
        from tiermesh.engine.adapters.rules import RulesBackend  # noqa: PLC0415 -- only the backend in use is imported

        async with RulesBackend.open(rules_path) as rules:
            yield rules
    elif tier.backend == "simulated":
        async with SimulatedBackend.open(tier, clock=clock) as simulated:
            yield simulated
    else:
        # vLLM itself is imported by this, on a thread of its own.
        async with open_vllm(tier, environ=environ) as vllm:
            yield vllm


async def run(process: Process) -> None:
    """Serves one tier until told to stop, or until its backend fails for good.

    Raises:
        ModelLoadFailed: the model could not be found or loaded.
        DeviceFailed: the backend's worker died; the process is to be restarted.
    """
    config = process.config
    tier = config.tier(process.cluster.removeprefix("engine-"))
    rules_path = process.config_path.parent / config.rules
    weights = {tenant.name: tenant.weight for tenant in config.tenants}
    async with AsyncExitStack() as stack:
        meter = stack.enter_context(process.open_meter("tiermesh-engine"))
        engine, servicer = wire(tier, clock=SYSTEM_CLOCK, weights=weights, meter=meter)
        tracing = await stack.enter_async_context(process.open_tracing("tiermesh-engine"))
        backends = await stack.enter_async_context(AsyncExitStack())
        server = await stack.enter_async_context(
            open_server(
                [servicer.service(), servicer.load_reports()],
                address=process.address,
                tls=process.server_tls(),
                tracing=tracing,
                default_deadline_s=config.deadlines.max_ms / 1000,
            )
        )

        async def work() -> None:
            _log.info("loading", tier=tier.name, backend=tier.backend, model=tier.public_model)
            backend = await backends.enter_async_context(
                open_backend(tier, rules_path=rules_path, environ=process.environ, clock=SYSTEM_CLOCK)
            )
            began = SYSTEM_CLOCK.monotonic()
            await backend.warm_up()
            _log.info("warm", seconds=round(SYSTEM_CLOCK.monotonic() - began, 1))
            engine.begin(backend)
            await server.set_serving(True)
            _log.info("serving", address=process.address)
            try:
                await backend.watch()
            finally:
                await server.set_serving(False)

        await _serve(server, servicer, asyncio.create_task(work()), drain_s=config.drain_s)


async def _serve(server: RunningServer, servicer: EngineServicer, work: asyncio.Task[None], *, drain_s: float) -> None:
    async def end_watches() -> None:
        await server.draining.wait()
        servicer.end_watches()

    ending = asyncio.create_task(end_watches())
    try:
        await serve_until_signal(server, drain_s=drain_s, tasks=[work])
    finally:
        ending.cancel()
        work.cancel()
        await asyncio.wait({work, ending})
