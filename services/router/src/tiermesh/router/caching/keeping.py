"""Which answers are kept in the cache, and as what."""

from __future__ import annotations

from tiermesh.api.cache.v1 import cache_pb2
from tiermesh.api.common.v1 import answer_pb2, chat_pb2
from tiermesh.api.engine.v1 import engine_pb2
from tiermesh.api.router.v1 import router_pb2
from tiermesh.router.policy.task_types import task_type_name
from tiermesh.router.tiers.tier_attempt import TierAttempt
from tiermesh.shared.clock import Clock


def may_keep(done: engine_pb2.Done | None, sampling: chat_pb2.Sampling) -> bool:
    """Returns whether an answer is complete: every choice has ended by itself."""
    return (
        done is not None
        and len(done.finishes) == max(1, sampling.choice_count)
        and all(finish.finish_reason == answer_pb2.FINISH_REASON_STOP for finish in done.finishes)
    )


def cached_answer(label: router_pb2.RouteLabel, attempt: TierAttempt, clock: Clock) -> cache_pb2.CachedAnswer:
    """Returns an answer as the cache keeps it: the first tier's, or the one that has replaced it."""
    assert attempt.done is not None
    tier, started = attempt.tier, attempt.started
    answer = cache_pb2.CachedAnswer(
        tier=tier.name,
        model=tier.public_model,
        deltas=attempt.deltas,
        finishes=attempt.done.finishes,
        usage=attempt.done.usage,
        simulated=tier.backend == "simulated" or (started is not None and started.simulated),
        task_type=task_type_name(label.task_type),
        complexity=label.complexity,
    )
    answer.create_time.FromMilliseconds(round(clock.wall() * 1000))
    return answer
