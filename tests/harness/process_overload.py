"""Three times as much work as a tier can do, on real processes, with an eye on their memory."""

from __future__ import annotations

import asyncio
import random
import time
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field

import psutil
from harness.mesh import Mesh
from tiermesh.client import AsyncClient, TiermeshError
from tiermesh.shared.errors import ERROR_TABLE

SLOTS = 8
SETTINGS = {
    "tiers": [
        {"name": "l1", "slots": SLOTS, "queue": 32, "simulated_ttft_ms": 40, "simulated_tokens_per_second": 100},
    ],
}
"""An answer takes 0.1 s per token alone and 0.6 s in a full batch; about 13 a second are what the tier can do."""
DEADLINE_S = 3.0
BATCH_DEADLINE_S = 30.0
BATCH_SHARE = 0.3
MAX_TOKENS = 32
_SAMPLE_S = 1.0


@dataclass(frozen=True)
class Asked:
    """What came of one request."""

    batch: bool
    reason: str
    """`ok`, or the reason of the error."""
    took_s: float
    ended_s: float
    """Since the beginning of the overload."""


@dataclass
class Overload:
    """What came of all of them."""

    capacity: float
    """Answers per second of a full tier on which nothing waits."""
    offered: float
    """Requests per second."""
    seconds: float
    asked: list[Asked] = field(default_factory=list)
    memory: list[int] = field(default_factory=list)
    """Bytes held by all processes of the mesh together, once a second."""

    @property
    def goodput_ratio(self) -> float:
        """Useful answers per second, over the capacity."""
        useful = sum(a.reason == "ok" and a.ended_s <= self.seconds for a in self.asked)
        return useful / self.seconds / self.capacity

    def answered_share(self, *, batch: bool) -> float:
        """Share of the requests of one kind that were answered."""
        ends = [a.reason == "ok" for a in self.asked if a.batch == batch]
        return sum(ends) / len(ends)

    def interactive_p99_s(self) -> float:
        """99th percentile of the time that interactive answers took."""
        took = sorted(a.took_s for a in self.asked if a.reason == "ok" and not a.batch)
        return took[int(len(took) * 0.99)]

    @property
    def memory_growth(self) -> float:
        """Mean memory in the last third of the time, over that in the middle one; by then all buffers have been used."""
        third = len(self.memory) // 3
        middle, last = self.memory[third : 2 * third], self.memory[2 * third : 3 * third]
        return (sum(last) / len(last)) / (sum(middle) / len(middle))

    def reasons(self) -> Mapping[str, int]:
        """How the requests ended."""
        return Counter(a.reason for a in self.asked)

    def lost(self) -> int:
        """Requests whose callers were not told why there is no answer."""
        return sum(a.reason != "ok" and (a.reason not in ERROR_TABLE or a.reason == "INTERNAL") for a in self.asked)


async def overload(mesh: Mesh, *, times: float = 3.0, seconds: float = 60.0, measure_s: float = 10.0) -> Overload:
    """Measures what the tier can do, then sends `times` as much.

    Args:
        mesh: Started with `SETTINGS`.
        times: Requests per second, over the capacity.
        seconds: For how long.
        measure_s: How long the capacity is measured.
    """
    async with AsyncClient(mesh.target, api_key=mesh.key) as client:
        capacity = await _capacity(client, measure_s)
        run, chance = Overload(capacity, times * capacity, seconds), random.Random(7)
        began = time.monotonic()
        watching = asyncio.create_task(_watch_memory(mesh, run))
        try:
            async with asyncio.TaskGroup() as group:
                number = 0
                due = began
                while (due := due + chance.expovariate(run.offered)) < began + seconds:
                    await asyncio.sleep(due - time.monotonic())
                    number += 1
                    group.create_task(_one(client, run, began, number, batch=chance.random() < BATCH_SHARE))
        finally:
            watching.cancel()
    return run


async def _capacity(client: AsyncClient, seconds: float) -> float:
    done, began = 0, time.monotonic()

    async def keep_asking(caller: int) -> None:
        nonlocal done
        number = 0
        while time.monotonic() < began + seconds:
            number += 1
            await _ask(client, f"Tell me about the number {caller}{number}", deadline_s=60.0, batch=False)
            done += time.monotonic() < began + seconds

    await asyncio.gather(*(keep_asking(caller) for caller in range(SLOTS)))
    return done / seconds


async def _one(client: AsyncClient, run: Overload, began: float, number: int, *, batch: bool) -> None:
    asked_at = time.monotonic()
    deadline_s = BATCH_DEADLINE_S if batch else DEADLINE_S
    try:
        await _ask(client, f"Tell me about the letter {number}", deadline_s=deadline_s, batch=batch)
    except TiermeshError as error:
        reason = error.reason
    else:
        reason = "ok"
    now = time.monotonic()
    run.asked.append(Asked(batch, reason, now - asked_at, now - began))


async def _ask(client: AsyncClient, text: str, *, deadline_s: float, batch: bool) -> None:
    await client.ask(
        text,
        model="tier:l1",
        cache=False,
        batch=batch,
        deadline_s=deadline_s,
        max_tokens=MAX_TOKENS,
        temperature=0.0,
    )


async def _watch_memory(mesh: Mesh, run: Overload) -> None:
    processes = await asyncio.to_thread(mesh.processes)
    while True:
        total = 0
        for process in processes:
            try:
                total += process.memory_info().rss
            except psutil.NoSuchProcess:
                continue
        run.memory.append(total)
        await asyncio.sleep(_SAMPLE_S)
