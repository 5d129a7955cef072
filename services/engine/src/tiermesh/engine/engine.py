"""One answer from beginning to end: read, queue, generate, count; and what to do when time runs out."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import aclosing, asynccontextmanager
from dataclasses import dataclass, field, replace

from tiermesh.engine.admission import Admission
from tiermesh.engine.limits import answer_limit
from tiermesh.engine.load import Changes, Load
from tiermesh.engine.ports import Backend, Finish, Lane, Piece, Prompt, Sampling, Turn
from tiermesh.engine.waiting import WaitingLine
from tiermesh.shared.budget import Budget
from tiermesh.shared.clock import Clock
from tiermesh.shared.config import TierConfig
from tiermesh.shared.errors import InferenceTimeout, StreamBroken, Unavailable

END_RESERVE_S = 0.05
"""Kept back of a deadline, so that the terminal event still reaches the caller before it, on a busy machine too."""
_BATCH_PATIENCE_S = 10.0


@dataclass(frozen=True, slots=True)
class Request:
    """A prompt and how to answer it."""

    request_id: str
    turns: tuple[Turn, ...]
    sampling: Sampling
    """Its `max_tokens` is what the caller wants, not yet capped."""
    lane: Lane


@dataclass(frozen=True, slots=True)
class Began:
    """The prompt left the queue."""

    simulated: bool
    prompt_tokens: int
    queue_s: float


@dataclass(frozen=True, slots=True)
class Ended:
    """The end of a complete answer."""

    finishes: tuple[tuple[int, Finish], ...]
    """Choice and why it ended, by choice."""
    prompt_tokens: int
    completion_tokens: int
    cached_prompt_tokens: int
    queue_s: float
    prefill_s: float
    """From the slot to the first token."""
    decode_s: float
    """From the first token to the last."""
    rule: str


Event = Began | Piece | Ended


@dataclass(slots=True)
class _Progress:
    slot_at: float
    first_at: float | None = None
    last_at: float | None = None
    tokens: int = 0
    cached: int = 0
    finishes: dict[int, Finish] = field(default_factory=dict)

    def add(self, piece: Piece, now: float) -> None:
        self.tokens += piece.token_count
        self.cached = max(self.cached, piece.cached_prompt_tokens)
        if piece.token_count or piece.text:
            self.first_at = now if self.first_at is None else self.first_at
            self.last_at = now
        if piece.finish is not None:
            self.finishes[piece.choice] = piece.finish


class Engine:
    """Answers prompts with one backend, at most `tier.slots` at a time.

    It refuses everything with Unavailable until `begin` has given it a warm backend.

    Args:
        tier: Limits of the tier.
        clock: Times everything.
        end_reserve_s: Kept back of every deadline for the terminal event.
    """

    def __init__(self, tier: TierConfig, *, clock: Clock, end_reserve_s: float = END_RESERVE_S) -> None:
        self.tier = tier
        self._end_reserve_s = end_reserve_s
        self._clock = clock
        # A quarter of the slots stays free of batch work, for people who arrive while it runs.
        line = WaitingLine(
            slots=tier.slots, limit=tier.queue, reserved=tier.slots // 4, batch_patience=_BATCH_PATIENCE_S
        )
        self._admission = Admission(line, clock=clock, tier=tier.name)
        self._backend: Backend | None = None
        self._aborted = 0
        self._generated = 0
        self.changes = Changes()
        """Announces every change of `load`."""

    def begin(self, backend: Backend) -> None:
        """Takes prompts from now on; `backend` has been warmed up."""
        self._backend = backend

    def load(self) -> Load:
        """Returns the load at this moment."""
        running = self._admission.running_count
        return Load(
            running=running,
            waiting=self._admission.waiting_count,
            slots=self.tier.slots,
            queue_limit=self.tier.queue,
            # A backend reports while it works: its last word is stale once nothing runs.
            kv_cache_utilization=self._backend.kv_cache_utilization if self._backend and running else 0.0,
            aborted=self._aborted,
            generated_tokens=self._generated,
        )

    async def answer(self, request: Request, budget: Budget) -> AsyncGenerator[Event]:
        """Answers a prompt: one Began, pieces, one Ended. Closing it frees the backend.

        Raises:
            Unavailable: the model is still loading.
            ContextTooLong: the prompt leaves no room for an answer.
            NotApplicable: a rules backend has no answer.
            BudgetExhausted: the deadline has passed, or passed in the queue.
            QueueFull: the queue is full.
            InferenceTimeout: the deadline passed while the model was generating.
            StreamBroken: the backend ended without finishing every choice.
        """
        backend = self._backend
        if backend is None:
            raise Unavailable(f"tier {self.tier.name} is still loading its model; try again soon", retry_after=2.0)
        budget.require(f"reading the prompt on tier {self.tier.name}")
        working = working_budget(budget, self._end_reserve_s)
        async with self._counted(), working.limit("reading the prompt"):
            prompt = await backend.prepare(request.turns)
        limit = answer_limit(
            prompt.token_count,
            request.sampling.max_tokens,
            context_tokens=self.tier.context_tokens,
            answer_tokens=self.tier.answer_tokens,
        )
        sampling = replace(request.sampling, max_tokens=limit)
        async with self._counted(), self._admission.slot(request.lane, working) as slot:
            yield Began(backend.simulated, prompt.token_count, slot.waited)
            progress = _Progress(self._clock.monotonic())
            pieces = backend.generate(prompt, sampling, request_id=request.request_id, lane=request.lane)
            async with aclosing(self._within(working, pieces, progress)) as timely:
                async for piece in timely:
                    progress.add(piece, self._clock.monotonic())
                    self._generated += piece.token_count
                    self.changes.announce()
                    yield piece
            yield self._ended(prompt, sampling, slot.waited, progress)

    @asynccontextmanager
    async def _counted(self) -> AsyncIterator[None]:
        # Load changes when a prompt comes, starts or goes; the one who holds the block sees to all three.
        self.changes.announce()
        try:
            yield
        except (asyncio.CancelledError, GeneratorExit):
            self._aborted += 1
            raise
        finally:
            self.changes.announce()

    async def _within(
        self, budget: Budget, pieces: AsyncGenerator[Piece], progress: _Progress
    ) -> AsyncGenerator[Piece]:
        # The deadline bounds each wait for the backend, not the whole loop: a timeout around a
        # `yield` would strike in the code of whoever reads.
        async with aclosing(pieces):
            while True:
                try:
                    async with asyncio.timeout(budget.remaining()):
                        piece = await anext(pieces, None)
                except TimeoutError:
                    raise InferenceTimeout(
                        f"the deadline passed after {progress.tokens} tokens on tier {self.tier.name}; "
                        "send a longer deadline or a lower max_tokens"
                    ) from None
                if piece is None:
                    return
                yield piece

    def _ended(self, prompt: Prompt, sampling: Sampling, queue_s: float, progress: _Progress) -> Ended:
        missing = sorted(set(range(sampling.choices)) - progress.finishes.keys())
        if missing:
            raise StreamBroken(f"the backend of tier {self.tier.name} ended without finishing choice {missing[0]}")
        now = self._clock.monotonic()
        first = now if progress.first_at is None else progress.first_at
        last = first if progress.last_at is None else progress.last_at
        return Ended(
            finishes=tuple(sorted(progress.finishes.items())),
            prompt_tokens=prompt.token_count,
            completion_tokens=progress.tokens,
            cached_prompt_tokens=progress.cached,
            queue_s=queue_s,
            prefill_s=first - progress.slot_at,
            decode_s=last - first,
            rule=prompt.rule,
        )


def working_budget(budget: Budget, end_reserve_s: float) -> Budget:
    """Returns the budget of the work itself: all but what its end needs, which is a quarter at most."""
    return budget.child(reserve=min(end_reserve_s, budget.remaining() / 4))
