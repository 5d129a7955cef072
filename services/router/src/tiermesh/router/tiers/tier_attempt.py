"""One call of one tier's engine: what has come of it, where its time went, what it has cost."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Sequence

from google.protobuf.duration_pb2 import Duration
from tiermesh.api.common.v1 import answer_pb2, chat_pb2
from tiermesh.api.engine.v1 import engine_pb2
from tiermesh.api.router.v1 import router_pb2
from tiermesh.router.escalation.confidence import Judgement, Sample
from tiermesh.router.escalation.patience import Patience
from tiermesh.router.telling.account import Account
from tiermesh.shared.answer_features import Scored, scored
from tiermesh.shared.budget import Budget
from tiermesh.shared.config import TierConfig
from tiermesh.shared.errors import StreamBroken, TiermeshError, Unavailable
from tiermesh.shared.ledger import Parts
from tiermesh.shared.rpc import error_of

Events = AsyncGenerator[engine_pb2.GenerateResponse, None]
Feedback = Callable[[str, engine_pb2.WatchLoadResponse], None]
ANSWERED, REJECTED, TIMEOUT = "answered", "rejected", "timeout"
"""Outcomes of attempts that did not fail."""
TOP_LOGPROBS = 2
"""Alternatives asked for where an answer is judged: the chosen token and the best other one."""


class TierAttempt:
    """Reads the events of one call.

    Args:
        tier: Tier called.
        budget: What the call may take.
        account: The request's ledger.
        sampling: What the caller asked for, which decides what is passed on.
        judge_after: Tokens of a choice after which the answer can be judged; 0 where it is not judged.
        feedback: Told the tier and the load of its engine, as the engine says with an answer's start and end.
    """

    def __init__(
        self,
        tier: TierConfig,
        *,
        budget: Budget,
        account: Account,
        sampling: chat_pb2.Sampling,
        judge_after: int,
        feedback: Feedback,
    ) -> None:
        self.tier = tier
        self.budget = budget
        self.deltas: list[answer_pb2.Delta] = []
        """Every piece received, as it is passed on."""
        self.done: engine_pb2.Done | None = None
        self.started: engine_pb2.Started | None = None
        self.failure_reported = False
        """Whether the engine itself told that it failed."""
        self.judgement: Judgement | None = None
        self.first_at: float | None = None
        """When the first piece came, in seconds since the request's arrival."""
        self.tokens = 0
        self.begin = account.now()
        self._account = account
        self._feedback = feedback
        self._started_at = 0.0
        self.choices = max(1, sampling.choice_count)
        self._judge_after = judge_after * self.choices
        self._keep_logprobs = sampling.logprobs
        self._keep_top = sampling.top_logprob_count
        self._logprobs: list[list[Scored]] = [[] for _ in range(self.choices)]

    @property
    def judged(self) -> bool:
        """Whether the answer is to be judged."""
        return self._judge_after > 0

    @property
    def ready(self) -> bool:
        """Whether enough has come to judge the answer, which is to be judged and has not been."""
        return (
            self._judge_after > 0
            and self.judgement is None
            and (self.tokens >= self._judge_after or self.done is not None)
        )

    async def open(self, events: Events, *, hold: bool, patience: Patience | None) -> None:
        """Reads the first piece; with `hold`, until the answer can be judged or has ended.

        Raises:
            TiermeshError: the call failed.
            TooSlowError: `patience` is at its end.
        """
        while self.done is None and (not self.deltas or (hold and not self.ready)):
            event = await anext(events, None) if patience is None else await patience.next(events)
            if event is None:
                raise StreamBroken("the stream ended without a terminal event")
            self.take(event)
            if patience is not None and self.deltas:
                # Its text has begun: it is no longer late, only judged.
                patience = None

    def take(self, event: engine_pb2.GenerateResponse) -> answer_pb2.Delta | None:
        """Takes an event in; returns the piece that it is, as it may be passed on.

        Raises:
            StreamBroken: the event cannot belong to this answer.
            TiermeshError: the engine reports that it failed.
        """
        kind = event.WhichOneof("event")
        if kind == "delta":
            delta = event.delta
            if not 0 <= delta.choice_index < self.choices:
                raise StreamBroken(f"a piece of choice {delta.choice_index}, which is not asked for")
            if self.first_at is None:
                self.first_at = self._account.now()
            self.tokens += len(delta.token_ids) or len(delta.logprobs) or bool(delta.text)
            if self._judge_after:
                self._sample(delta)
            self.deltas.append(delta)
            return delta
        if event.HasField("load"):
            self._feedback(self.tier.name, event.load)
        if kind == "done":
            self.done = event.done
        elif kind == "started":
            self.started = event.started
            self._started_at = self._account.now()
        elif kind == "failure":
            self.failure_reported = True
            raise error_of(event.failure)
        return None

    def samples(self) -> Sequence[Sample]:
        """Returns what has come of each choice."""
        texts: list[list[str]] = [[] for _ in range(self.choices)]
        for delta in self.deltas:
            texts[delta.choice_index].append(delta.text)
        return [Sample("".join(text), tuple(found)) for text, found in zip(texts, self._logprobs, strict=True)]

    def end(self, outcome: str, error: TiermeshError | None = None) -> router_pb2.Attempt:
        """Enters the call into the ledger; returns it as callers see it."""
        self._account.add(
            "engine", self.begin, budget=self.budget, parts=self._parts(error), outcome=outcome, tier=self.tier.name
        )
        attempt = router_pb2.Attempt(tier=self.tier.name, outcome=outcome, usage=self._usage())
        if self.done is not None:
            attempt.timing.CopyFrom(self.done.timing)
        if self.judgement is not None:
            attempt.objection = self.judgement.objection
            if self.judgement.confidence is not None:
                attempt.confidence = self.judgement.confidence
        return attempt

    def observed(self) -> Parts:
        """Returns where the time went by the engine's own account, or as seen from here."""
        return self._parts(None)

    def _sample(self, delta: answer_pb2.Delta) -> None:
        """Notes the log-probabilities of a piece, and takes off it those that the caller did not ask for."""
        if self.judgement is None:
            self._logprobs[delta.choice_index].extend(map(scored, delta.logprobs))
        if not self._keep_logprobs:
            delta.ClearField("logprobs")
        elif self._keep_top < TOP_LOGPROBS:
            for token in delta.logprobs:
                del token.top[self._keep_top :]

    def _usage(self) -> answer_pb2.Usage:
        if self.done is not None:
            return self.done.usage
        usage = answer_pb2.Usage(completion_token_count=self.tokens)
        if self.started is not None:
            usage.prompt_token_count = self.started.prompt_token_count
        return usage

    def _parts(self, error: TiermeshError | None) -> Parts:
        done = self.done
        if done is not None and done.HasField("timing"):
            timing = done.timing
            return Parts(
                queue=_seconds(timing.queue),
                tokenize=_seconds(timing.tokenize),
                prefill=_seconds(timing.prefill),
                decode=_seconds(timing.decode),
                detokenize=_seconds(timing.detokenize),
            )
        now = self._account.now()
        if self.started is None:
            # What is not there is a matter of the way; what is there and does not begin, of its queue.
            return Parts() if isinstance(error, Unavailable) else Parts(queue=now - self.begin)
        first = now if self.first_at is None else self.first_at
        return Parts(queue=_seconds(self.started.queue), prefill=first - self._started_at, decode=now - first)


def _seconds(duration: Duration) -> float:
    return float(duration.seconds + duration.nanos * 1e-9)
