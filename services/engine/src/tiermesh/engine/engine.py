"""One answer from beginning to end: read, queue, generate, count; and what to do when time runs out."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Mapping
from contextlib import aclosing, asynccontextmanager
from dataclasses import dataclass, field, replace

from tiermesh.engine.admission import Admission
from tiermesh.engine.batch_limit import BatchLimit
from tiermesh.engine.forecast import Forecast, Sample
from tiermesh.engine.hopeless import HopelessWork, Verdict
from tiermesh.engine.limits import answer_limit
from tiermesh.engine.load import Changes, Load
from tiermesh.engine.ports import Backend, Finish, Lane, Piece, PrefixCache, Prompt, Sampling, Turn
from tiermesh.engine.waiting import WaitingLine
from tiermesh.shared.budget import Budget
from tiermesh.shared.clock import Clock
from tiermesh.shared.config import TierConfig
from tiermesh.shared.errors import DeadlineError, InferenceTimeout, StreamBroken, Unavailable
from tiermesh.shared.telemetry import get_logger

_log = get_logger(__name__)

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
    tenant: str = ""


@dataclass(frozen=True, slots=True)
class Began:
    """The prompt left the queue."""

    simulated: bool
    prompt_tokens: int
    queue_s: float
    predicted_s: float | None = None
    """Seconds that the whole answer was predicted to take, queue included; None where that was not known."""
    hopeless: bool = False
    """Whether that was past the deadline."""


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
    """From the first token to the end, without `detokenize_s`."""
    rule: str
    tokenize_s: float = 0.0
    """From the request's arrival to its place in the queue."""
    detokenize_s: float = 0.0
    """Turning tokens into text, where the backend tells that apart. All five sum to the time since arrival."""


Event = Began | Piece | Ended


@dataclass(slots=True)
class _Progress:
    slot_at: float
    first_at: float | None = None
    tokens: int = 0
    cached: int = 0
    detokenize_s: float = 0.0
    detokenized_by_first_s: float = 0.0
    finishes: dict[int, Finish] = field(default_factory=dict)

    def add(self, piece: Piece, now: float) -> None:
        self.tokens += piece.token_count
        self.cached = max(self.cached, piece.cached_prompt_tokens)
        self.detokenize_s += piece.detokenize_s
        if self.first_at is None and (piece.token_count or piece.text):
            self.first_at, self.detokenized_by_first_s = now, self.detokenize_s
        if piece.finish is not None:
            self.finishes[piece.choice] = piece.finish


class Engine:
    """Answers prompts with one backend, at most `tier.slots` at a time.

    It refuses everything with Unavailable until `begin` has given it a warm backend.

    Args:
        tier: Limits of the tier.
        clock: Times everything.
        end_reserve_s: Kept back of every deadline for the terminal event.
        weights: Tenants' shares of the slots; 1 for those not named.
    """

    def __init__(
        self,
        tier: TierConfig,
        *,
        clock: Clock,
        end_reserve_s: float = END_RESERVE_S,
        weights: Mapping[str, float] | None = None,
    ) -> None:
        self.tier = tier
        self._end_reserve_s = end_reserve_s
        self._clock = clock
        # A quarter of the slots stays free of batch work, for people who arrive while it runs.
        line = WaitingLine(
            slots=tier.slots,
            limit=tier.queue,
            reserved=tier.slots // 4,
            batch_patience=_BATCH_PATIENCE_S,
            weights=weights,
            like_with_like=tier.length_buckets,
        )
        token_s_limit = None if tier.token_ms_limit is None else tier.token_ms_limit / 1000
        batch_limit = BatchLimit(most=tier.slots, token_s_limit=token_s_limit)
        self._admission = Admission(line, clock=clock, tier=tier.name, batch_limit=batch_limit)
        self._forecast = Forecast()
        # How right the forecast is has been measured on the simulated backend; a language model's own traffic decides.
        proved = tier.backend == "simulated"
        self._hopeless = HopelessWork(tier.hopeless_work, tier=tier.name, proved=proved)
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
        prefixes = self._backend.prefix_cache if self._backend else PrefixCache()
        return Load(
            running=running,
            waiting=self._admission.waiting_count,
            slots=self._admission.slots,
            queue_limit=self.tier.queue,
            # A backend reports while it works: its last word is stale once nothing runs.
            kv_cache_utilization=self._backend.kv_cache_utilization if self._backend and running else 0.0,
            aborted=self._aborted,
            generated_tokens=self._generated,
            hopeless=self._hopeless.count,
            hopeless_finished=self._hopeless.finished,
            prefix_queried_tokens=prefixes.queried,
            prefix_hit_tokens=prefixes.hits,
        )

    async def answer(self, request: Request, budget: Budget) -> AsyncGenerator[Event]:
        """Answers a prompt: one Began, pieces, one Ended. Closing it frees the backend.

        Raises:
            Unavailable: the model is still loading.
            ContextTooLong: the prompt leaves no room for an answer.
            NotApplicable: a rules backend has no answer.
            BudgetExhausted: the deadline has passed, or passed in the queue, or the answer could not end before it.
            QueueFull: the queue is full.
            InferenceTimeout: the deadline passed while the model was generating.
            StreamBroken: the backend ended without finishing every choice.
        """
        backend = self._backend
        if backend is None:
            raise Unavailable(f"tier {self.tier.name} is still loading its model; try again soon", retry_after=2.0)
        arrived = self._clock.monotonic()
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
        wait_s = self._admission.expected_wait(request.lane, request.tenant)
        verdict = self._judge(prompt, limit, working, wait_s=wait_s)
        tokenize_s = self._clock.monotonic() - arrived
        slots = self._admission.slot(request.lane, working, tenant=request.tenant, length=prompt.token_count)
        async with self._counted(), self._settled(verdict), slots as slot:
            if slot.waited and not verdict.hopeless:
                # The queue may have taken longer than was predicted.
                verdict.hopeless = self._judge(prompt, limit, working, wait_s=0.0, waited=True).hopeless
            yield Began(backend.simulated, prompt.token_count, slot.waited, verdict.predicted_s, verdict.hopeless)
            # What the caller took to read the event is part of the answer's time, not of the queue's.
            progress = _Progress(arrived + tokenize_s + slot.waited)
            pieces = backend.generate(prompt, sampling, request_id=request.request_id, lane=request.lane)
            async with aclosing(self._within(working, pieces, progress)) as timely:
                async for piece in timely:
                    progress.add(piece, self._clock.monotonic())
                    self._generated += piece.token_count
                    self.changes.announce()
                    yield piece
            ended = self._ended(prompt, sampling, slot.waited, tokenize_s, progress)
            self._learn(ended, sampling)
            yield ended

    def _judge(self, prompt: Prompt, limit: int, working: Budget, *, wait_s: float, waited: bool = False) -> Verdict:
        others = self._admission.running_count - waited + self._admission.waiting_count
        predicted = None
        # An engine with nothing else to do takes every prompt: its answer is what the next forecast is made from.
        if others and not self._forecast.unknown(self._clock.monotonic()):
            # Where others wait, a slot for an answer that may be late is taken from one that would not be.
            answer_s = self._forecast.answer_s(prompt.token_count, limit, sure=waited or wait_s > 0)
            predicted = wait_s + answer_s
        verdict = self._hopeless.judge(predicted, working.remaining())
        # The first ones, and then ever fewer: an overload must not fill the log.
        if verdict.hopeless and self._hopeless.count.bit_count() == 1:
            _log.info(
                "hopeless work", count=self._hopeless.count, refused=verdict.refused, proved=self._hopeless.proved
            )
        if verdict.refused:
            raise self._hopeless.refusal(verdict, working.remaining())
        return verdict

    @asynccontextmanager
    async def _settled(self, verdict: Verdict) -> AsyncIterator[None]:
        try:
            yield
        except DeadlineError:
            self._hopeless.ended(verdict, in_time=False)
            raise
        else:
            self._hopeless.ended(verdict, in_time=True)

    def _learn(self, ended: Ended, sampling: Sampling) -> None:
        tokens = ended.completion_tokens // sampling.choices
        decode_s = ended.decode_s + ended.detokenize_s
        sample = Sample(ended.prompt_tokens - ended.cached_prompt_tokens, ended.prefill_s, tokens, decode_s)
        self._forecast.learn(sample, self._clock.monotonic())
        if tokens > 1:
            self._admission.note_token_time(decode_s / (tokens - 1))

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

    def _ended(
        self, prompt: Prompt, sampling: Sampling, queue_s: float, tokenize_s: float, progress: _Progress
    ) -> Ended:
        missing = sorted(set(range(sampling.choices)) - progress.finishes.keys())
        if missing:
            raise StreamBroken(f"the backend of tier {self.tier.name} ended without finishing choice {missing[0]}")
        now = self._clock.monotonic()
        first = now if progress.first_at is None else progress.first_at
        to_first, whole = progress.detokenized_by_first_s, progress.detokenize_s
        return Ended(
            finishes=tuple(sorted(progress.finishes.items())),
            prompt_tokens=prompt.token_count,
            completion_tokens=progress.tokens,
            cached_prompt_tokens=progress.cached,
            queue_s=queue_s,
            prefill_s=first - progress.slot_at - to_first,
            decode_s=now - first - (whole - to_first),
            rule=prompt.rule,
            tokenize_s=tokenize_s,
            detokenize_s=whole,
        )


def working_budget(budget: Budget, end_reserve_s: float) -> Budget:
    """Returns the budget of the work itself: all but what its end needs, which is a quarter at most."""
    return budget.child(reserve=min(end_reserve_s, budget.remaining() / 4))
