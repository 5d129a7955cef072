"""Runs a decision's candidates until one of them answers.

    candidate ─► engine ─► first text ─► (held back and judged) ─► label ─► pieces ─► end
        ▲                      │                  │
        └──── next ────────────┴── not there ─────┴── not good enough: cancelled first

Nothing goes out before the commit point: the first text of an answer that is not judged, or the
judgement of one that is. Until then the request may still move on; from then on the answer belongs
to that tier, and pieces of two tiers are never joined.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import ExitStack, aclosing

from tiermesh.api.cache.v1 import cache_pb2
from tiermesh.api.common.v1 import chat_pb2
from tiermesh.api.engine.v1 import engine_pb2
from tiermesh.api.router.v1 import router_pb2
from tiermesh.router import observe
from tiermesh.router.attempt import broken_off, failed_at, is_fault, is_outage, nobody_answered, why_next
from tiermesh.router.background import BackgroundStores
from tiermesh.router.call import Call
from tiermesh.router.confidence import Step, judge
from tiermesh.router.course import Course
from tiermesh.router.events import Completed, Event
from tiermesh.router.keeping import cached_answer, may_keep
from tiermesh.router.label import decided_label
from tiermesh.router.patience import Patience, TooSlowError
from tiermesh.router.policy import Decision
from tiermesh.router.ports import EnginePool
from tiermesh.router.tier_attempt import TOP_LOGPROBS, TierAttempt
from tiermesh.router.tier_watch import TierWatch
from tiermesh.shared.clock import Clock
from tiermesh.shared.config import TierConfig
from tiermesh.shared.errors import BudgetExhausted, StreamBroken, TiermeshError

REJECTED, TIMEOUT, ANSWERED = "rejected", "timeout", "answered"
"""Outcomes of attempts that did not fail."""


class Generation:
    """Runs engines.

    Args:
        engines: The engines of every tier.
        watch: What is known of the tiers; told how they do.
        stores: Takes complete answers to the cache.
        clock: Time.
    """

    def __init__(self, *, engines: EnginePool, watch: TierWatch, stores: BackgroundStores, clock: Clock) -> None:
        self._engines = engines
        self._watch = watch
        self._stores = stores
        self._clock = clock

    async def run(
        self,
        call: Call,
        decision: Decision,
        cache_status: router_pb2.CacheStatus.ValueType,
        store_key: cache_pb2.CacheKey | None,
    ) -> AsyncGenerator[Event, None]:
        """Streams the answer of the first candidate that is good enough.

        Args:
            call: The request.
            decision: Its candidates, at least one.
            cache_status: How the cache took part, for the label.
            store_key: Where to keep the answer, or None.

        Raises:
            TiermeshError: no candidate answered, or the one that had begun failed.
        """
        course = Course(call, decision, self._watch)
        escalation = call.snapshot.config.escalation
        self._watch.quota.earn(share=escalation.share, burst=escalation.burst)
        tier, ttft = course.first(), 0.0
        while True:
            attempt, hold, shut = self._begin(course, tier)
            label: router_pb2.RouteLabel | None = None
            error: TiermeshError | None = None
            target: str | None = None
            try:
                request = _engine_request(call, tier, judged=attempt.judged)
                async with aclosing(self._engines.generate(tier.name, request, budget=attempt.budget)) as events:
                    with ExitStack() as stack:
                        patience = self._patience(course, tier)
                        if patience is not None:
                            stack.enter_context(patience)
                        await attempt.open(events, hold=hold, patience=patience)
                    self._watch.health.answered(tier.name)
                    if hold:
                        target = self._weigh(course, attempt)
                    if target is None:
                        label = self._label(course, attempt, cache_status)
                        ttft = self._commit(call, attempt, hold=hold)
                        yield label
                        for delta in attempt.deltas.copy():
                            yield delta
                        # Read on to the status: leaving a stream that has not ended is an abort to the engine.
                        async for event in events:
                            piece = attempt.take(event)
                            if piece is not None:
                                yield piece
                            if attempt.ready and not hold:
                                self._note_doubt(course, attempt, shut)
            except TooSlowError as late:
                target = late.instead
                self._give_up(course, attempt, TIMEOUT, reason=TIMEOUT)
            except TiermeshError as failure:
                error = failure
            else:
                if target is not None:
                    assert attempt.judgement is not None
                    self._give_up(course, attempt, REJECTED, reason=attempt.judgement.objection)
            if target is not None:
                # The call that was given up has been cancelled by now: its engine is free.
                tier = course.take(target)
                continue
            if attempt.done is not None and label is not None:
                break
            tier = self._after_failure(course, attempt, error, committed=label is not None)
        self._finish(course, attempt)
        end = Completed(
            attempt.done.finishes,
            course.usage,
            course.attempts,
            False,
            ttft,
            reasons=tuple(course.later),
        )
        try:
            yield end
        finally:
            # After the end has been handed over, so that the caller does not wait; and also when
            # the caller leaves with it, since the answer is complete.
            good = not course.escalation_skipped and not decision.degraded
            if store_key is not None and good and may_keep(attempt.done, call.request.sampling):
                self._stores.start(store_key, cached_answer(label, attempt.deltas, attempt.done, self._clock))

    def _begin(self, course: Course, tier: TierConfig) -> tuple[TierAttempt, bool, str]:
        """Returns the attempt, whether its first text is held back, and if not, the gate that is shut."""
        call, decision = course.call, course.decision
        escalation = call.snapshot.config.escalation
        judged = (
            escalation.enabled
            and not decision.pinned
            and tier.backend != "rules"
            and (decision.confidence is None or decision.confidence < escalation.sure_from)
            and course.has_stronger(tier)
        )
        gates = course.gates(tier, Step.NEXT) if judged else None
        attempt = TierAttempt(
            tier,
            budget=course.budget(),
            account=call.account,
            sampling=call.request.sampling,
            judge_after=escalation.hold_tokens if judged else 0,
        )
        return attempt, gates is not None and gates.tier is not None, "" if gates is None else gates.shut

    def _patience(self, course: Course, tier: TierConfig) -> Patience | None:
        """Returns how long the first text may take, where another tier could be asked instead."""
        if not course.call.snapshot.config.escalation.enabled or course.decision.pinned:
            return None
        if course.gates(tier, Step.NEXT).tier is None:
            return None
        return Patience(course.lane.first_token_ms / 1000, lambda: course.gates(tier, Step.NEXT).tier)

    def _weigh(self, course: Course, attempt: TierAttempt) -> str | None:
        """Judges an answer that is held back; returns the tier that should be asked instead."""
        self._judge(course, attempt)
        judgement = attempt.judgement
        assert judgement is not None
        if judgement.step is Step.ACCEPT:
            return None
        gates = course.gates(attempt.tier, judgement.step)
        if gates.tier is None:
            course.reasons.append(course.skip(gates.shut))
        return gates.tier

    def _note_doubt(self, course: Course, attempt: TierAttempt, shut: str) -> None:
        """Judges an answer that could not be held back, for the record and for the cache."""
        self._judge(course, attempt)
        assert attempt.judgement is not None
        if attempt.judgement.step is not Step.ACCEPT:
            course.later.append(course.skip(shut))

    def _judge(self, course: Course, attempt: TierAttempt) -> None:
        escalation, kind = course.call.snapshot.config.escalation, course.decision.task_type
        attempt.judgement = judge(
            attempt.samples(),
            calibration=escalation.calibration(attempt.tier.name, kind),
            band=escalation.band(kind),
            safety_phrases=escalation.safety_phrases,
        )
        observe.record_judgement(course.call.span, attempt.tier.name, attempt.judgement)

    def _commit(self, call: Call, attempt: TierAttempt, *, hold: bool) -> float:
        """Notes that the answer goes out from now on; returns the time to its first text."""
        now = call.account.now()
        first = now if attempt.first_at is None else attempt.first_at
        if hold:
            call.account.held(now - first)
            first = now
        observe.record_first_text(call.span, first)
        return first

    def _give_up(self, course: Course, attempt: TierAttempt, outcome: str, *, reason: str) -> None:
        course.ended(attempt.end(outcome))
        course.reasons.append(f"{reason}:{attempt.tier.name}")
        observe.record_attempts(course.call.span, course.attempts)
        self._watch.estimates.ended(attempt.tier.name, failed=outcome == TIMEOUT)

    def _after_failure(
        self, course: Course, attempt: TierAttempt, error: TiermeshError | None, *, committed: bool
    ) -> TierConfig:
        """Returns the tier to try after a failed one.

        Raises:
            TiermeshError: the request ends here.
        """
        tier, call = attempt.tier, course.call
        if error is None:
            error = StreamBroken("the stream ended without a terminal event")
        course.ended(attempt.end(error.reason, error))
        observe.record_attempts(call.span, course.attempts)
        self._watch.estimates.ended(tier.name, failed=is_fault(error))
        if is_outage(error):
            self._watch.health.failed(tier.name)
        if committed:
            if attempt.failure_reported:
                raise failed_at(tier.name, error)
            raise broken_off(error, tier=tier.name, pieces=len(attempt.deltas), budget=attempt.budget)
        if isinstance(error, StreamBroken) and attempt.budget.exhausted:
            raise broken_off(error, tier=tier.name, pieces=len(attempt.deltas), budget=attempt.budget)
        if course.decision.pinned:
            raise failed_at(tier.name, error)
        course.failures.append((tier.name, error))
        if isinstance(error, BudgetExhausted):
            # Refused as hopeless there; a tier that is predicted to be in time is none.
            target = course.gates_anywhere().tier if call.snapshot.config.escalation.enabled else None
            if target is None or attempt.started is not None:
                raise failed_at(tier.name, error)
            course.reasons.append(f"hopeless:{tier.name}")
            return course.take(target)
        why = why_next(error)
        if why is None:
            raise failed_at(tier.name, error)
        course.reasons.append(f"{why}:{tier.name}")
        following = course.next()
        if following is None:
            raise nobody_answered(course.failures)
        return following

    def _finish(self, course: Course, attempt: TierAttempt) -> None:
        call, done = course.call, attempt.done
        assert done is not None
        course.ended(attempt.end(ANSWERED))
        observe.record_attempts(call.span, course.attempts)
        observe.record_usage(call.span, course.usage)
        estimates, name, parts = self._watch.estimates, attempt.tier.name, attempt.observed()
        estimates.ended(name, failed=False)
        estimates.waited(name, parts.queue)
        estimates.answered(
            name,
            prefill_s=parts.prefill,
            decode_s=parts.decode,
            prompt_tokens=done.usage.prompt_token_count,
            answer_tokens=done.usage.completion_token_count,
            choices=max(1, call.request.sampling.choice_count),
        )

    def _label(
        self, course: Course, attempt: TierAttempt, cache_status: router_pb2.CacheStatus.ValueType
    ) -> router_pb2.RouteLabel:
        tier, started = attempt.tier, attempt.started
        label = decided_label(
            course.call,
            course.decision,
            tier=tier.name,
            model=tier.public_model,
            cache_status=cache_status,
            reasons=course.label_reasons(tier),
            simulated=tier.backend == "simulated" or (started is not None and started.simulated),
        )
        observe.record_route(course.call.span, label, tenant=course.call.caller.tenant)
        return label


def _engine_request(call: Call, tier: TierConfig, *, judged: bool) -> engine_pb2.GenerateRequest:
    request = engine_pb2.GenerateRequest(
        request_id=f"{call.caller.request_id}/{tier.name}",
        tenant=call.caller.tenant,
        messages=call.request.messages,
        sampling=call.request.sampling,
        priority=call.request.priority or chat_pb2.PRIORITY_INTERACTIVE,
    )
    sampling = request.sampling
    asked = (
        sampling.max_tokens if sampling.HasField("max_tokens") else call.snapshot.config.router.default_answer_tokens
    )
    sampling.max_tokens = min(asked, tier.answer_tokens)
    if judged:
        sampling.logprobs = True
        sampling.top_logprob_count = max(TOP_LOGPROBS, sampling.top_logprob_count)
    return request
