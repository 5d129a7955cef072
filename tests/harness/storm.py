"""Clients that time out and try again against a service near its limit, in virtual time.

The service is a queueing model: so many at once, each for a drawn time, the others wait in line.
It does not know its callers' deadlines beyond the cancellation that reaches it: what it has begun
for a caller who went away is wasted, and `ignores_cancellation` says whether it finishes it anyway.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field

from harness.virtual_time import VirtualTime, run_in_virtual_time
from tiermesh.client import Deadlines, Lane, RetryPolicy, RetryTokens
from tiermesh.client._retries import Attempts
from tiermesh.shared.budget import Budget
from tiermesh.shared.errors import BudgetExhausted, DeadlineError, TiermeshError


class Service:
    """Serves `slots` calls at once; the times it takes have their 99th percentile at 280 ms when nothing waits."""

    def __init__(self, loop: VirtualTime, *, slots: int, ignores_cancellation: bool) -> None:
        self._loop = loop
        self._free = asyncio.Semaphore(slots)
        self._chance = random.Random(3)
        self._ignores_cancellation = ignores_cancellation
        self.calls = 0
        self.useful_s = 0.0
        self.wasted_s = 0.0
        """Time spent on calls whose caller had gone."""

    def _draw(self) -> float:
        # Log-normal: median 100 ms, and 2.326 deviations above it 280 ms.
        return min(0.5, self._chance.lognormvariate(-2.3026, 0.4427))

    @property
    def mean_s(self) -> float:
        return 0.1103

    async def call(self) -> None:
        self.calls += 1
        work = asyncio.ensure_future(self._work())
        try:
            await asyncio.shield(work) if self._ignores_cancellation else await work
        except asyncio.CancelledError:
            work.add_done_callback(self._wasted)
            raise
        self.useful_s += work.result()

    def _wasted(self, work: asyncio.Future[float]) -> None:
        if not work.cancelled() and work.exception() is None:
            self.wasted_s += work.result()

    async def _work(self) -> float:
        async with self._free:
            began = self._loop.time()
            try:
                await asyncio.sleep(self._draw())
            except asyncio.CancelledError:
                self.wasted_s += self._loop.time() - began
                raise
            return self._loop.time() - began


Client = Callable[[Service], Awaitable[bool]]
"""Makes one request of a service; tells whether it was answered."""


def naive_client(*, timeout_s: float = 0.3, attempts: int = 3) -> Client:
    """A client that times out at `timeout_s` and tries again at once."""

    async def ask(service: Service) -> bool:
        for _ in range(attempts):
            try:
                async with asyncio.timeout(timeout_s):
                    await service.call()
            except TimeoutError:
                continue
            return True
        return False

    return ask


def sdk_client(loop: VirtualTime, lane: Lane = Lane.COMPLEX) -> Client:
    """A client with the SDK's defaults."""
    deadlines, tokens, policy, chance = Deadlines(), RetryTokens(), RetryPolicy(), random.Random(5)

    async def ask(service: Service) -> bool:
        budget = Budget.of(deadlines.default_s(lane), loop)
        attempts = Attempts(policy, tokens, budget, typical_s=deadlines.typical_s(lane), random=chance.random)
        began = loop.time()
        while True:
            try:
                async with budget.limit("the request"):
                    await service.call()
            except DeadlineError as error:
                failure: TiermeshError = BudgetExhausted(error.message)
            else:
                tokens.succeeded()
                deadlines.note(lane, loop.time() - began)
                return True
            wait = attempts.after(failure)
            if wait is None:
                return False
            await asyncio.sleep(wait)

    return ask


@dataclass
class Storm:
    """What came of all requests."""

    asked: list[tuple[float, bool]] = field(default_factory=list)
    """When each began, and whether it was answered."""
    calls: int = 0
    wasted_share: float = 0.0

    def success(self, since: float, until: float) -> float:
        """Share of the requests begun in this time that were answered."""
        outcomes = [ok for at, ok in self.asked if since <= at < until]
        return sum(outcomes) / len(outcomes)


def storm(
    make_client: Callable[[VirtualTime], Client],
    *,
    slots: int = 40,
    load: float = 0.8,
    burst: float = 2.0,
    quiet_s: float = 10.0,
    burst_s: float = 5.0,
    after_s: float = 20.0,
    ignores_cancellation: bool = False,
) -> Storm:
    """Sends requests at random moments: at `load` of capacity, then `burst` times that for a while, then as before."""
    loop = VirtualTime()
    service = Service(loop, slots=slots, ignores_cancellation=ignores_cancellation)
    client, result, chance = make_client(loop), Storm(), random.Random(11)

    async def one() -> None:
        began = loop.time()
        ok = await client(service)
        result.asked.append((began, ok))

    async def work() -> None:
        rate = load * slots / service.mean_s
        asked = []
        while loop.time() < quiet_s + burst_s + after_s:
            bursting = quiet_s <= loop.time() < quiet_s + burst_s
            asked.append(asyncio.ensure_future(one()))
            await asyncio.sleep(chance.expovariate(rate * (burst if bursting else 1.0)))
        await asyncio.gather(*asked)
        # What was left running for callers who had gone ends, too.
        await asyncio.sleep(60)

    run_in_virtual_time(work(), loop)
    result.calls = service.calls
    result.wasted_share = service.wasted_s / (service.wasted_s + service.useful_s)
    return result
