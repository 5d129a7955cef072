"""A queueing model in place of a language model: it takes the time one would, and makes its text up.

For trying the mesh and for load tests on machines without the engine environment. Every answer
says what it is. The slow-down of a batch is fitted to SmolLM2-135M on vLLM's CPU build, where an
answer alone gets 31 tokens/s, each of 4 gets 24, and each of 16 gets 12.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Literal

from tiermesh.engine.adapters.simulated_text import Script, write_script
from tiermesh.engine.ports import Finish, Lane, Piece, PrefixCache, Prompt, Sampling, Turn
from tiermesh.engine.tokens import count_tokens
from tiermesh.shared.clock import Clock
from tiermesh.shared.config import TierConfig

_SLOWDOWN_PER_NEIGHBOUR = 0.1
_PREFILL_SPEEDUP = 40.0
"""Prompt tokens are read this many times faster than answer tokens are written."""
_TIMER_S = 0.005
"""How late an event loop's timer may be without anything being wrong."""
_TEMPLATE_TOKENS = 4
"""What a chat template adds to a message."""

Sleep = Callable[[float], Awaitable[None]]


@dataclass(frozen=True, slots=True)
class Pace:
    """How fast an engine is."""

    ttft_s: float
    """Time to the first token of an idle engine and a short prompt."""
    tokens_per_second: float
    """Decode speed of one answer alone."""

    def prefill_s(self, prompt_tokens: int, running: int) -> float:
        """Seconds from the slot to the first token, with `running` choices in the batch, this one included."""
        reading = prompt_tokens / (self.tokens_per_second * _PREFILL_SPEEDUP) if self.ttft_s else 0.0
        return (self.ttft_s + reading) * self._slowdown(running)

    def token_s(self, running: int) -> float:
        """Seconds per token of one answer."""
        return self._slowdown(running) / self.tokens_per_second

    @staticmethod
    def _slowdown(running: int) -> float:
        return 1.0 + _SLOWDOWN_PER_NEIGHBOUR * (running - 1)


class SimulatedBackend:
    """Makes answers up at the speed of `tier.simulated_*`. The same prompt and sampling give the same text.

    Args:
        tier: Its pace and names.
        clock: Times the answers.
        sleep: Waits; tests pass their own.
    """

    kind: Literal["simulated"] = "simulated"
    simulated = True

    def __init__(self, tier: TierConfig, *, clock: Clock, sleep: Sleep = asyncio.sleep) -> None:
        self._tier = tier
        self._clock = clock
        self._sleep = sleep
        self._pace = Pace(tier.simulated_ttft_ms / 1000, tier.simulated_tokens_per_second)
        self._running = 0
        self._held_tokens = 0

    @classmethod
    @asynccontextmanager
    async def open(cls, tier: TierConfig, *, clock: Clock) -> AsyncIterator[SimulatedBackend]:
        """Opens the backend; nothing needs closing."""
        yield cls(tier, clock=clock)

    prefix_cache = PrefixCache()
    """It reads no prompts, so there is nothing to find."""

    @property
    def kv_cache_utilization(self) -> float:
        """Tokens held by running answers, as a share of what all slots could hold."""
        return min(1.0, self._held_tokens / (self._tier.slots * self._tier.context_tokens))

    async def warm_up(self) -> None:
        """Nothing is lazy here."""

    async def prepare(self, turns: Sequence[Turn]) -> Prompt:
        """Counts a conversation's tokens, about."""
        tokens = sum(count_tokens(turn.content) + _TEMPLATE_TOKENS for turn in turns)
        return Prompt(tuple(turns), tokens)

    async def generate(
        self,
        prompt: Prompt,
        sampling: Sampling,
        *,
        request_id: str,  # noqa: ARG002 -- the port's signature
        lane: Lane,  # noqa: ARG002 -- the port's signature
    ) -> AsyncGenerator[Piece]:
        """Writes all choices side by side, a token of each in turn."""
        scripts = [
            write_script(prompt, sampling, choice, model=self._tier.public_model) for choice in range(sampling.choices)
        ]
        held = prompt.token_count + sum(len(script.tokens) for script in scripts)
        self._running += sampling.choices
        self._held_tokens += held
        try:
            async for piece in self._write(prompt, scripts, with_scores=sampling.logprobs):
                yield piece
        finally:
            self._running -= sampling.choices
            self._held_tokens -= held

    async def _write(self, prompt: Prompt, scripts: Sequence[Script], *, with_scores: bool) -> AsyncGenerator[Piece]:
        due = self._clock.monotonic() + self._pace.prefill_s(prompt.token_count, self._running)
        written = 0
        longest = max(len(script.tokens) for script in scripts)
        while written < longest:
            late = self._clock.monotonic() - due
            if late < 0:
                await self._sleep(-late)
                late = 0.0
            step = self._pace.token_s(self._running)
            # An engine faster than the event loop's timer writes several tokens at once. One that was stopped for
            # longer has computed nothing meanwhile, and stays behind.
            due += max(0.0, late - _TIMER_S)
            upto = min(longest, written + 1 + int(min(late, _TIMER_S) / step))
            for choice, script in enumerate(scripts):
                piece = script.piece(choice, written, upto, with_scores=with_scores)
                if piece is not None:
                    yield piece
            due += step * (upto - written)
            written = upto
        for choice, script in enumerate(scripts):
            if not script.tokens:
                yield Piece(choice, "", 0, finish=Finish.STOP)

    async def watch(self) -> None:
        """Waits for ever: there is no worker that could die."""
        await asyncio.Event().wait()

    async def close(self) -> None:
        """Nothing is held."""
