"""Both clients of the SDK against a scripted router in this process."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any, Literal

from tiermesh.client import Answer, AsyncClient, Client, Deadlines
from tiermesh.shared.config import LanesConfig
from tiermesh.shared.rpc import open_server
from tiermesh.shared.testing import RecordedTracing, ScriptedRouter, recorded_tracing

Kind = Literal["async", "sync"]
LANES = LanesConfig.model_validate(
    {
        "simple": {"deadline_ms": 60_000, "queue_ms": 59_000},
        "complex": {"deadline_ms": 90_000, "queue_ms": 87_000},
    }
)
"""Half a second, the mesh's own default, may pass while a busy machine does something else."""


@dataclass
class RunningRouter:
    """A scripted router that serves, and what a client of it has waited."""

    router: ScriptedRouter
    target: str
    tracing: RecordedTracing
    waits: list[float] = field(default_factory=list)

    def client(self, **options: Any) -> AsyncClient:
        """Returns a client for asyncio whose waits take no time."""

        async def sleep(seconds: float) -> None:
            self.waits.append(seconds)

        return AsyncClient(self.target, **{"sleep": sleep, "deadlines": Deadlines(LANES), **options})

    def sync_client(self, **options: Any) -> Client:
        """Returns a client for threads whose waits take no time."""
        return Client(self.target, **{"sleep": self.waits.append, "deadlines": Deadlines(LANES), **options})

    async def ask(
        self, kind: Kind, prompt: str = "hello", options: dict[str, Any] | None = None, **arguments: Any
    ) -> Answer:
        """Asks with a client of either kind."""
        if kind == "async":
            async with self.client(**(options or {})) as client:
                return await client.ask(prompt, **arguments)
        return await self.in_thread(lambda client: client.ask(prompt, **arguments), **(options or {}))

    async def in_thread(self, work: Callable[[Client], Any], **options: Any) -> Any:
        """Does something with a synchronous client, on a thread of its own."""

        def run() -> Any:
            with self.sync_client(**options) as client:
                return work(client)

        return await asyncio.to_thread(run)


@asynccontextmanager
async def running_router(router: ScriptedRouter) -> AsyncIterator[RunningRouter]:
    """Serves a scripted router on a free port."""
    with recorded_tracing() as tracing:
        async with open_server(
            [router.service()], address="127.0.0.1:0", tracing=tracing, default_deadline_s=600
        ) as server:
            await server.set_serving(True)
            yield RunningRouter(router, f"127.0.0.1:{server.port}", tracing)
