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

from tiermesh.api.router.v1 import router_pb2
from tiermesh.router.caching.keeping import cached_answer, may_keep
from tiermesh.router.caching.place import CachePlace
from tiermesh.router.caching.store_queue import StoreQueue
from tiermesh.router.call import Call
from tiermesh.router.course import Course
from tiermesh.router.escalation.confidence import Step
from tiermesh.router.escalation.judging import judge_attempt, learn_from
from tiermesh.router.escalation.patience import Patience, TooSlowError
from tiermesh.router.escalation.revising import Reviser, revision_of
from tiermesh.router.events import Completed, Event
from tiermesh.router.policy.candidates import Decision
from tiermesh.router.ports import EnginePool
from tiermesh.router.telling import observe
from tiermesh.router.telling.label import decided_label
from tiermesh.router.telling.metrics import RequestMetrics
from tiermesh.router.tiers.engine_request import engine_request
from tiermesh.router.tiers.failover import note_failure, tier_after
from tiermesh.router.tiers.tier_attempt import ANSWERED, REJECTED, TIMEOUT, TierAttempt
from tiermesh.router.tiers.watch import TierWatch
from tiermesh.shared.clock import Clock
from tiermesh.shared.config import TierConfig
from tiermesh.shared.errors import StreamBroken, TiermeshError


class Generation:
    """Runs engines.

    Args:
        engines: The engines of every tier.
        watch: What is known of the tiers; told how they do.
        stores: Takes complete answers to the cache.
        clock: Time.
        metrics: Counts escalations.
    """

    def __init__(
        self,
        *,
        engines: EnginePool,
        watch: TierWatch,
        stores: StoreQueue,
        clock: Clock,
        metrics: RequestMetrics | None = None,
    ) -> None:
        self._engines = engines
        self._watch = watch
        self._stores = stores
        self._clock = clock
        self._metrics = metrics or RequestMetrics()
        self._reviser = Reviser(engines, watch, self._metrics)

    async def run(
        self,
        call: Call,
        decision: Decision,
        cache_status: router_pb2.CacheStatus.ValueType,
        keep_at: CachePlace | None,
    ) -> AsyncGenerator[Event, None]:
        """Streams the answer of the first candidate that is good enough.

        Args:
            call: The request.
            decision: Its candidates, at least one.
            cache_status: How the cache took part, for the label.
            keep_at: Where to keep the answer, or None.

        Raises:
            TiermeshError: no candidate answered, or the one that had begun failed.
        """
        course = Course(call, decision, self._watch, self._metrics)
        escalation = call.snapshot.config.escalation
        self._watch.quota.earn(share=escalation.share, burst=escalation.burst)
        tier, ttft = course.first(), 0.0
        while True:
            attempt, hold, shut = self._begin(course, tier)
            label: router_pb2.RouteLabel | None = None
            error: TiermeshError | None = None
            target: str | None = None
            try:
                request = engine_request(call, tier, judged=attempt.judged)
                async with aclosing(self._engines.generate(tier.name, request, budget=attempt.budget)) as events:
                    with ExitStack() as stack:
                        patience = self._patience(course, tier)
                        if patience is not None:
                            stack.enter_context(patience)
                        await attempt.open(events, hold=hold, patience=patience)
                    self._watch.health.answered(tier.name)
                    self._watch.breakers.passed(tier.name, call.request.priority)
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
                            if attempt.ready and not hold and not call.request.progressive:
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
            if error is None:
                error = StreamBroken("the stream ended without a terminal event")
            note_failure(course, attempt, error, watch=self._watch, metrics=self._metrics)
            try:
                tier = tier_after(course, attempt, error, committed=label is not None)
            except TiermeshError:
                if course.complete is None or label is not None:
                    raise
                # What was not good enough is still better than nothing.
                attempt = course.complete
                label, ttft = self._label(course, attempt, cache_status), call.account.now()
                yield label
                for delta in attempt.deltas:
                    yield delta
                break
        kept = attempt
        if attempt is course.complete:
            observe.record_usage(call.span, course.usage)
        elif call.request.progressive and attempt.judged:
            judge_attempt(course, attempt)
            self._finish(course, attempt)
            better = await self._reviser.improve(course, attempt)
            if better is not None:
                kept = better
                call.trail.revision = revision_of(better, why=course.later[-1])
                yield call.trail.revision
            observe.record_attempts(call.span, course.attempts)
            observe.record_usage(call.span, course.usage)
            observe.record_afterthoughts(call.span, course.later)
        else:
            self._finish(course, attempt)
        assert attempt.done is not None
        end = Completed(
            attempt.done.finishes,
            course.usage,
            course.attempts,
            False,
            ttft,
            reasons=tuple(course.later),
        )
        call.trail.end, call.trail.deltas = end, attempt.deltas
        try:
            yield end
        finally:
            # After the end has been handed over, so that the caller does not wait; and also when
            # the caller leaves with it, since the answer is complete.
            good = not course.escalation_skipped and not decision.degraded and attempt is not course.complete
            if keep_at is not None and good and may_keep(kept.done, call.request.sampling):
                self._stores.put(keep_at, cached_answer(label, kept, self._clock))

    def _begin(self, course: Course, tier: TierConfig) -> tuple[TierAttempt, bool, str]:
        """Returns the attempt, whether its first text is held back, and if not, the gate that is shut."""
        call, decision = course.call, course.decision
        escalation, progressive = call.snapshot.config.escalation, call.request.progressive
        judged = (
            escalation.enabled
            and not decision.pinned
            and tier.backend != "rules"
            and (progressive or decision.confidence is None or decision.confidence < escalation.sure_from)
            and course.has_stronger(tier)
        )
        gates = course.gates(tier, Step.NEXT) if judged else None
        attempt = TierAttempt(
            tier,
            budget=course.budget(),
            account=call.account,
            sampling=call.request.sampling,
            judge_after=escalation.hold_tokens if judged else 0,
            feedback=self._watch.feedback,
        )
        hold = gates is not None and gates.tier is not None and not progressive
        return attempt, hold, "" if gates is None else gates.shut

    def _patience(self, course: Course, tier: TierConfig) -> Patience | None:
        """Returns how long the first text may take, where another tier could be asked instead."""
        if not course.call.snapshot.config.escalation.enabled or course.decision.pinned:
            return None
        if course.gates(tier, Step.NEXT).tier is None:
            return None
        return Patience(course.lane.first_token_ms / 1000, lambda: course.gates(tier, Step.NEXT).tier)

    def _weigh(self, course: Course, attempt: TierAttempt) -> str | None:
        """Judges an answer that is held back; returns the tier that should be asked instead."""
        judgement = judge_attempt(course, attempt)
        if attempt.first_at is not None:
            course.call.account.held(course.call.account.now() - attempt.first_at)
        if judgement.step is Step.ACCEPT:
            return None
        gates = course.gates(attempt.tier, judgement.step)
        if gates.tier is None:
            course.reasons.append(course.skip(gates.shut))
        return gates.tier

    def _note_doubt(self, course: Course, attempt: TierAttempt, shut: str) -> None:
        """Judges an answer that could not be held back, for the record and for the cache."""
        if judge_attempt(course, attempt).step is not Step.ACCEPT:
            course.later.append(course.skip(shut))

    def _commit(self, call: Call, attempt: TierAttempt, *, hold: bool) -> float:
        """Notes that the answer goes out from now on; returns the time to its first text."""
        now = call.account.now()
        first = now if attempt.first_at is None else attempt.first_at
        if hold:
            first = now
        observe.record_first_text(call.span, first)
        return first

    def _give_up(self, course: Course, attempt: TierAttempt, outcome: str, *, reason: str) -> None:
        course.ended(attempt.end(outcome), attempt.judgement)
        course.reasons.append(f"{reason}:{attempt.tier.name}")
        if attempt.done is not None:
            course.complete = attempt
        self._metrics.escalated(tier=attempt.tier.name, why=reason)
        observe.record_attempts(course.call.span, course.attempts)
        self._watch.estimates.ended(attempt.tier.name, failed=outcome == TIMEOUT)

    def _finish(self, course: Course, attempt: TierAttempt) -> None:
        course.ended(attempt.end(ANSWERED), attempt.judgement)
        observe.record_attempts(course.call.span, course.attempts)
        observe.record_usage(course.call.span, course.usage)
        observe.record_afterthoughts(course.call.span, course.later)
        learn_from(self._watch.estimates, attempt)

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
            open_breakers=self._watch.breakers.open_for(course.call.request.priority),
            simulated=tier.backend == "simulated" or (started is not None and started.simulated),
        )
        course.call.trail.label = label
        observe.record_route(course.call.span, label, tenant=course.call.caller.tenant)
        return label
