"""Tries a decision's candidates in order until one of them answers.

A request moves on only while the tier has not started. Once it has, its label is out and the
answer is that tier's to the end: pieces of two tiers are never joined.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing

from tiermesh.api.cache.v1 import cache_pb2
from tiermesh.api.common.v1 import answer_pb2, chat_pb2
from tiermesh.api.engine.v1 import engine_pb2
from tiermesh.api.router.v1 import router_pb2
from tiermesh.router import observe
from tiermesh.router.attempt import broken_off, error_of, failed_at, is_outage, nobody_answered, why_next
from tiermesh.router.background import BackgroundStores
from tiermesh.router.call import Call
from tiermesh.router.events import Completed, Event
from tiermesh.router.label import decided_label
from tiermesh.router.policy import LAST_RESORT, Decision
from tiermesh.router.ports import EnginePool
from tiermesh.router.task_types import task_type_name
from tiermesh.router.tier_health import TierHealth
from tiermesh.shared.clock import Clock
from tiermesh.shared.config import TierConfig
from tiermesh.shared.errors import StreamBroken, TiermeshError


class Generation:
    """Runs engines.

    Args:
        engines: The engines of every tier.
        health: Told which tiers fail and answer.
        stores: Takes complete answers to the cache.
        clock: Time.
    """

    def __init__(self, *, engines: EnginePool, health: TierHealth, stores: BackgroundStores, clock: Clock) -> None:
        self._engines = engines
        self._health = health
        self._stores = stores
        self._clock = clock

    async def run(
        self,
        call: Call,
        decision: Decision,
        cache_status: router_pb2.CacheStatus.ValueType,
        store_key: cache_pb2.CacheKey | None,
    ) -> AsyncGenerator[Event, None]:
        """Streams the answer of the first candidate that starts.

        Args:
            call: The request.
            decision: Its candidates, at least one.
            cache_status: How the cache took part, for the label.
            store_key: Where to keep the answer, or None.

        Raises:
            TiermeshError: no candidate started, or the one that did failed.
        """
        arrived, clock = call.caller.arrived, self._clock
        reserve = call.snapshot.config.deadlines.reserve_ms / 1000
        reasons = list(decision.reasons)
        choices = range(max(1, call.request.sampling.choice_count))
        failures: list[tuple[str, TiermeshError]] = []
        attempts: list[router_pb2.Attempt] = []
        for tier in decision.candidates:
            budget = call.caller.budget.child(reserve=reserve)
            label: router_pb2.RouteLabel | None = None
            deltas: list[answer_pb2.Delta] = []
            ttft: float | None = None
            done: engine_pb2.Done | None = None
            error: TiermeshError | None = None
            reported = False
            try:
                stream = self._engines.generate(tier.name, _engine_request(call, tier), budget=budget)
                async with aclosing(stream) as events:
                    async for event in events:
                        kind = event.WhichOneof("event")
                        if kind == "failure":
                            reported = True
                            raise error_of(event.failure)
                        if label is None:
                            self._health.answered(tier.name)
                            label = _label(call, decision, tier, event, cache_status, reasons)
                            yield label
                        if kind == "delta":
                            if event.delta.choice_index not in choices:
                                raise StreamBroken(
                                    f"a piece of choice {event.delta.choice_index}, which is not asked for"
                                )
                            if ttft is None:
                                ttft = clock.monotonic() - arrived
                                observe.record_first_text(call.span, ttft)
                            deltas.append(event.delta)
                            yield event.delta
                        elif kind == "done":
                            # Read on to the status: leaving a stream that has not ended is an abort to the engine.
                            done = event.done
            except TiermeshError as failure:
                error = failure
            if done is not None and label is not None:
                break
            if error is None:
                error = StreamBroken("the stream ended without a terminal event")
            attempts.append(router_pb2.Attempt(tier=tier.name, outcome=error.reason))
            observe.record_attempts(call.span, attempts)
            if is_outage(error):
                self._health.failed(tier.name)
            if label is not None:
                if reported:
                    raise failed_at(tier.name, error)
                raise broken_off(error, tier=tier.name, pieces=len(deltas), budget=budget)
            why = why_next(error)
            if why is None or decision.pinned:
                raise failed_at(tier.name, error)
            failures.append((tier.name, error))
            reasons.append(f"{why}:{tier.name}")
        else:
            raise nobody_answered(failures)
        attempts.append(router_pb2.Attempt(tier=tier.name, outcome="answered", usage=done.usage, timing=done.timing))
        observe.record_attempts(call.span, attempts)
        observe.record_usage(call.span, done.usage)
        total = clock.monotonic() - arrived
        try:
            yield Completed(done.finishes, done.usage, attempts, False, total if ttft is None else ttft, total)
        finally:
            # After the end has been handed over, so that the caller does not wait; and also when
            # the caller leaves with it, since the answer is complete.
            if store_key is not None and _may_keep(done, call.request.sampling):
                self._stores.start(store_key, self._cached_answer(label, deltas, done))

    def _cached_answer(
        self, label: router_pb2.RouteLabel, deltas: Sequence[answer_pb2.Delta], done: engine_pb2.Done
    ) -> cache_pb2.CachedAnswer:
        answer = cache_pb2.CachedAnswer(
            tier=label.tier,
            model=label.model,
            deltas=deltas,
            finishes=done.finishes,
            usage=done.usage,
            simulated=label.simulated,
            task_type=task_type_name(label.task_type),
            complexity=label.complexity,
        )
        answer.create_time.FromMilliseconds(round(self._clock.wall() * 1000))
        return answer


def _label(
    call: Call,
    decision: Decision,
    tier: TierConfig,
    first: engine_pb2.GenerateResponse,
    cache_status: router_pb2.CacheStatus.ValueType,
    reasons: Sequence[str],
) -> router_pb2.RouteLabel:
    if tier.name in decision.last_resort and LAST_RESORT not in reasons:
        reasons = [*reasons, LAST_RESORT]
    label = decided_label(
        call,
        decision,
        tier=tier.name,
        model=tier.public_model,
        cache_status=cache_status,
        reasons=reasons,
        simulated=first.started.simulated or tier.backend == "simulated",
    )
    observe.record_route(call.span, label, tenant=call.caller.tenant)
    return label


def _engine_request(call: Call, tier: TierConfig) -> engine_pb2.GenerateRequest:
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
    return request


def _may_keep(done: engine_pb2.Done, sampling: chat_pb2.Sampling) -> bool:
    """Only answers that every choice ended by itself are complete."""
    return len(done.finishes) == max(1, sampling.choice_count) and all(
        finish.finish_reason == answer_pb2.FINISH_REASON_STOP for finish in done.finishes
    )
