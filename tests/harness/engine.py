"""An engine whose backend does what a test says, and engines as processes of their own."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable, Sequence
from typing import Literal

from tiermesh.engine.ports import Lane, Piece, PrefixCache, Prompt, Sampling, Turn
from tiermesh.shared.errors import TiermeshError

Step = Piece | TiermeshError | asyncio.Event | Callable[[], object]
"""What the backend does next: give a piece, fail, wait for an event, or call something."""


class ScriptedBackend:
    """Answers every prompt with the same steps, and notes how each answer ended.

    Args:
        steps: What it does for every prompt.
        prompt_tokens: Length that it finds in every prompt.
    """

    kind: Literal["simulated"] = "simulated"
    simulated = True
    kv_cache_utilization = 0.5
    prefix_cache = PrefixCache(queried=200, hits=90)

    def __init__(self, *steps: Step, prompt_tokens: int = 10) -> None:
        self.steps: Sequence[Step] = steps
        self.prompt_tokens = prompt_tokens
        self.refusal: TiermeshError | None = None
        """Raised for every prompt before it is queued."""
        self.samplings: list[Sampling] = []
        self.entered = asyncio.Event()
        """Set once a generation has begun."""
        self.abandoned = asyncio.Event()
        """Set once one was given up before its end."""

    async def warm_up(self) -> None:
        pass

    async def prepare(self, turns: Sequence[Turn]) -> Prompt:
        if self.refusal is not None:
            raise self.refusal
        return Prompt(tuple(turns), self.prompt_tokens, rule="scripted-rule")

    async def generate(
        self, prompt: Prompt, sampling: Sampling, *, request_id: str, lane: Lane
    ) -> AsyncGenerator[Piece]:
        self.samplings.append(sampling)
        self.entered.set()
        try:
            for step in self.steps:
                if isinstance(step, asyncio.Event):
                    await step.wait()
                elif isinstance(step, TiermeshError):
                    raise step
                elif isinstance(step, Piece):
                    yield step
                else:
                    step()
        except (asyncio.CancelledError, GeneratorExit):
            self.abandoned.set()
            raise

    async def watch(self) -> None:
        await asyncio.Event().wait()

    async def close(self) -> None:
        pass
