"""Clients that time out and try again against a service near its limit, in virtual time.

Two services take the same drawn times, whose 99th percentile is 280 ms where nothing waits, for so many calls at once:

- `EngineService` is the mesh's own engine, with its queue, its forecast and its refusals, on a backend that draws;
- `PlainService` is a line and nothing more. It knows no deadlines beyond the cancellation that reaches it: what it has
  begun for a caller who went away is wasted, and `ignores_cancellation` says whether it finishes it anyway.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import aclosing
from dataclasses import dataclass, field
from functools import partial
from typing import Literal, Protocol

from harness.virtual_time import VirtualTime, run_in_virtual_time
from tiermesh.client import Deadlines, Lane, RetryPolicy, RetryTokens
from tiermesh.client._retries import Attempts
from tiermesh.engine.engine import Engine, Request
from tiermesh.engine.ports import Finish, Piece, Prompt, Sampling, Turn
from tiermesh.engine.ports import Lane as EngineLane
from tiermesh.shared.budget import Budget
from tiermesh.shared.config import DeadlineConfig, TierConfig
from tiermesh.shared.errors import TiermeshError


class Service(Protocol):
    """What the clients call."""

    calls: int

    async def call(self, budget: Budget | None) -> None:
        """Serves one call; `budget` is the deadline that its caller sends, if it sends one.

        Raises:
            TiermeshError: it refuses.
        """
        ...

    @property
    def wasted_share(self) -> float:
        """Share of the work that was done for callers who had gone before its end."""
        ...


MEAN_S = 0.1103


def draw_s(chance: random.Random) -> float:
    """Returns the seconds of one call: log-normal, median 100 ms, and 2.326 deviations above it 280 ms."""
    return min(0.5, chance.lognormvariate(-2.3026, 0.4427))


class PlainService:
    """A `Service` of `slots` places and a line before them."""

    def __init__(self, loop: VirtualTime, slots: int, *, ignores_cancellation: bool = False) -> None:
        self._loop = loop
        self._free = asyncio.Semaphore(slots)
        self._chance = random.Random(3)
        self._ignores_cancellation = ignores_cancellation
        self.calls = 0
        self.useful_s = 0.0
        self.wasted_s = 0.0
        """Time spent on calls whose caller had gone."""

    @property
    def wasted_share(self) -> float:
        return self.wasted_s / (self.wasted_s + self.useful_s)

    async def call(self, budget: Budget | None) -> None:
        del budget  # it has no use for deadlines
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
                await asyncio.sleep(draw_s(self._chance))
            except asyncio.CancelledError:
                self.wasted_s += self._loop.time() - began
                raise
            return self._loop.time() - began


class DrawingBackend:
    """A backend that writes `TOKENS` tokens in a drawn time, and counts those written for nobody."""

    kind: Literal["vllm"] = "vllm"
    simulated = True
    kv_cache_utilization = 0.0

    def __init__(self) -> None:
        self._chance = random.Random(3)
        self.useful_tokens = 0
        self.wasted_tokens = 0

    async def warm_up(self) -> None:
        pass

    async def prepare(self, turns: Sequence[Turn]) -> Prompt:
        return Prompt(tuple(turns), 20)

    async def generate(
        self, prompt: Prompt, sampling: Sampling, *, request_id: str, lane: EngineLane
    ) -> AsyncGenerator[Piece]:
        step, written = draw_s(self._chance) / TOKENS, 0
        try:
            for number in range(TOKENS):
                await asyncio.sleep(step)
                written += 1
                yield Piece(0, "a ", 1, finish=Finish.STOP if number == TOKENS - 1 else None)
        except (asyncio.CancelledError, GeneratorExit):
            self.wasted_tokens += written
            raise
        self.useful_tokens += written

    async def watch(self) -> None:
        await asyncio.Event().wait()

    async def close(self) -> None:
        pass


TOKENS = 20


class EngineService:
    """A `Service` that is the mesh's engine, set up as a language model's is by default."""

    def __init__(self, loop: VirtualTime, slots: int) -> None:
        tier = TierConfig(name="l1", backend="vllm", model="drawn", slots=slots)
        self._engine = Engine(tier, clock=loop)
        self._backend = DrawingBackend()
        self._engine.begin(self._backend)
        self._no_deadline = partial(Budget.of, DeadlineConfig().default_ms / 1000, loop)
        self.calls = 0

    async def call(self, budget: Budget | None) -> None:
        self.calls += 1
        turns = (Turn("user", f"question {self.calls}"),)
        request = Request(f"r-{self.calls}", turns, Sampling(max_tokens=64), EngineLane.INTERACTIVE, "a")
        async with aclosing(self._engine.answer(request, budget or self._no_deadline())) as events:
            async for _ in events:
                pass

    @property
    def wasted_share(self) -> float:
        return self._backend.wasted_tokens / (self._backend.wasted_tokens + self._backend.useful_tokens)


Client = Callable[[Service], Awaitable[bool]]
"""Makes one request of a service; tells whether it was answered."""


def naive_client(*, timeout_s: float = 0.3, attempts: int = 3) -> Client:
    """A client that times out at `timeout_s` and tries again at once."""

    async def ask(service: Service) -> bool:
        for _ in range(attempts):
            try:
                async with asyncio.timeout(timeout_s):
                    await service.call(None)
            except (TimeoutError, TiermeshError):
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
                    await service.call(budget)
            except TiermeshError as error:
                failure = error
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
    make_service: Callable[[VirtualTime, int], Service] = EngineService,
) -> Storm:
    """Sends requests at random moments: at `load` of capacity, then `burst` times that for a while, then as before."""
    loop = VirtualTime()
    service = make_service(loop, slots)
    client, result, chance = make_client(loop), Storm(), random.Random(11)

    async def one() -> None:
        began = loop.time()
        ok = await client(service)
        result.asked.append((began, ok))

    async def work() -> None:
        rate = load * slots / MEAN_S
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
    result.wasted_share = service.wasted_share
    return result
