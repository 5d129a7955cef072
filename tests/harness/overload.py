"""An engine on the simulated backend under more work than it can do, in virtual time."""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from contextlib import aclosing
from dataclasses import dataclass, field

from harness.virtual_time import VirtualTime, run_in_virtual_time
from tiermesh.engine.adapters.simulated import SimulatedBackend
from tiermesh.engine.engine import Engine, Request
from tiermesh.engine.ports import Lane, Sampling, Turn
from tiermesh.shared.budget import Budget
from tiermesh.shared.config import TierConfig
from tiermesh.shared.errors import TiermeshError

_ENDLESS_S = 1e6


@dataclass(frozen=True)
class Outcome:
    """What became of one prompt."""

    tenant: str
    lane: Lane
    reason: str
    """`ok`, or the reason of the error."""
    took_s: float
    ended_at: float


@dataclass
class Run:
    """What became of all prompts."""

    seconds: float
    outcomes: list[Outcome] = field(default_factory=list)
    most_waiting: int = 0
    running: list[int] = field(default_factory=list)
    """Prompts that held a slot, whenever another one came."""
    hopeless: int = 0
    hopeless_finished: int = 0

    def goodput(self) -> float:
        """Complete answers per second, within the time in which prompts came."""
        return sum(o.reason == "ok" and o.ended_at <= self.seconds for o in self.outcomes) / self.seconds

    def counts(self, lane: Lane) -> Counter[str]:
        """Reasons of one lane."""
        return Counter(o.reason for o in self.outcomes if o.lane is lane)

    def took(self, lane: Lane, share: float) -> float:
        """Quantile of the time that complete answers of one lane took, in seconds."""
        times = sorted(o.took_s for o in self.outcomes if o.lane is lane and o.reason == "ok")
        return times[int(len(times) * share)]


class Load:
    """An engine and what it is asked.

    Args:
        tier: Its limits and pace.
        weights: Tenants' shares.
    """

    def __init__(self, tier: TierConfig, weights: dict[str, float] | None = None) -> None:
        self.loop = VirtualTime()
        self.engine = Engine(tier, clock=self.loop, weights=weights)
        self.engine.begin(SimulatedBackend(tier, clock=self.loop))
        self._count = 0

    async def _ask(self, run: Run, tenant: str, lane: Lane, deadline_s: float) -> None:
        self._count += 1
        began = self.loop.time()
        turns = (Turn("user", f"question {self._count}"),)
        request = Request(f"r-{self._count}", turns, Sampling(max_tokens=256), lane, tenant)
        try:
            async with aclosing(self.engine.answer(request, Budget.of(deadline_s, self.loop))) as events:
                async for _ in events:
                    pass
        except TiermeshError as error:
            reason = error.reason
        else:
            reason = "ok"
        run.outcomes.append(Outcome(tenant, lane, reason, self.loop.time() - began, self.loop.time()))

    def capacity(self, seconds: float = 60.0) -> float:
        """Returns the answers per second when every slot is always taken and nothing is late."""
        run = Run(seconds)

        async def keep_asking() -> None:
            while self.loop.time() < seconds:
                await self._ask(run, "a", Lane.INTERACTIVE, _ENDLESS_S)

        async def work() -> None:
            await asyncio.gather(*(keep_asking() for _ in range(self.engine.tier.slots)))

        run_in_virtual_time(work(), self.loop)
        return run.goodput()

    def overload(
        self,
        rate: float,
        *,
        seconds: float = 60.0,
        deadline_s: float,
        batch_share: float = 0.3,
        tenants: dict[str, float] | None = None,
        seed: int = 7,
    ) -> Run:
        """Sends prompts at random moments, `rate` a second, whatever becomes of them.

        Args:
            rate: Prompts per second.
            seconds: For how long.
            deadline_s: Of interactive prompts; batch prompts have a minute.
            batch_share: Share of batch prompts.
            tenants: Tenants and how often each sends; one tenant by default.
            seed: Decides the moments.
        """
        run, chance = Run(seconds), random.Random(seed)
        names = list(tenants or {"a": 1.0})
        often = list((tenants or {"a": 1.0}).values())

        async def work() -> None:
            asked = []
            while self.loop.time() < seconds:
                lane = Lane.BATCH if chance.random() < batch_share else Lane.INTERACTIVE
                (tenant,) = chance.choices(names, often)
                deadline = deadline_s if lane is Lane.INTERACTIVE else 60.0
                asked.append(asyncio.ensure_future(self._ask(run, tenant, lane, deadline)))
                await asyncio.sleep(chance.expovariate(rate))
                load = self.engine.load()
                run.most_waiting = max(run.most_waiting, load.waiting)
                run.running.append(load.running)
            await asyncio.gather(*asked)

        run_in_virtual_time(work(), self.loop)
        load = self.engine.load()
        assert (load.running, load.waiting) == (0, 0)
        run.hopeless, run.hopeless_finished = load.hopeless, load.hopeless_finished
        return run
