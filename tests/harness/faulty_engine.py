"""An engine process whose prompts choose their own fault: `python -m harness.faulty_engine --config mesh.yaml --tier l1`.

The engine and its servicer are the mesh's own, on the simulated backend; what a prompt names in `FAULTS` happens to it.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncGenerator, Sequence

from tiermesh.engine.adapters.simulated import SimulatedBackend
from tiermesh.engine.app import wire
from tiermesh.engine.ports import Lane, Piece, Prompt, Sampling, Turn
from tiermesh.shared.clock import SYSTEM_CLOCK
from tiermesh.shared.errors import DeviceFailed
from tiermesh.shared.process import Process, main
from tiermesh.shared.rpc import open_server, serve_until_signal
from tiermesh.shared.telemetry import open_tracing

FAULTS = {
    "silent": "nothing ever comes",
    "stalls": "half of the answer comes, then nothing",
    "crawls": "every token takes ten times as long",
    "refuses": "UNAVAILABLE instead of an answer",
    "breaks": "half of the answer comes, then UNAVAILABLE",
}
_HALF = 12


def fault_of(text: str) -> str:
    """Returns the fault that a prompt names, or nothing."""
    word = text.partition("fault:")[2].partition(" ")[0]
    return word if word in FAULTS else ""


class FaultyBackend(SimulatedBackend):
    """A simulated backend that obeys the prompts."""

    async def prepare(self, turns: Sequence[Turn]) -> Prompt:
        if fault_of(turns[-1].content) == "silent":
            await asyncio.Event().wait()
        return await super().prepare(turns)

    async def generate(
        self, prompt: Prompt, sampling: Sampling, *, request_id: str, lane: Lane
    ) -> AsyncGenerator[Piece]:
        fault, written = fault_of(prompt.turns[-1].content), 0
        if fault == "refuses":
            raise DeviceFailed("the device failed")
        async for piece in super().generate(prompt, sampling, request_id=request_id, lane=lane):
            yield piece
            written += piece.token_count
            if fault == "crawls":
                await asyncio.sleep(9 * piece.token_count / self._tier.simulated_tokens_per_second)
            elif fault == "stalls" and written >= _HALF:
                await asyncio.Event().wait()
            elif fault == "breaks" and written >= _HALF:
                raise DeviceFailed("the device failed")


async def run(process: Process) -> None:
    """Serves until told to stop."""
    tier = process.config.tier(process.cluster.removeprefix("engine-"))
    engine, servicer = wire(tier, clock=SYSTEM_CLOCK)
    engine.begin(FaultyBackend(tier, clock=SYSTEM_CLOCK))
    async with (
        open_tracing(process.cluster, instance=process.instance, endpoint=None) as tracing,
        open_server(
            [servicer.service(), servicer.load_reports()],
            address=process.address,
            tracing=tracing,
            default_deadline_s=process.config.deadlines.max_ms / 1000,
        ) as server,
    ):
        await server.set_serving(True)
        await serve_until_signal(server, drain_s=0.0)


if __name__ == "__main__":
    sys.exit(main("harness.faulty_engine", run))
