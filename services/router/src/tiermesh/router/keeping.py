"""Which answers are kept in the cache, and as what."""

from __future__ import annotations

from collections.abc import Sequence

from tiermesh.api.cache.v1 import cache_pb2
from tiermesh.api.common.v1 import answer_pb2, chat_pb2
from tiermesh.api.engine.v1 import engine_pb2
from tiermesh.api.router.v1 import router_pb2
from tiermesh.router.task_types import task_type_name
from tiermesh.shared.clock import Clock


def may_keep(done: engine_pb2.Done, sampling: chat_pb2.Sampling) -> bool:
    """Returns whether an answer is complete: every choice has ended by itself."""
    return len(done.finishes) == max(1, sampling.choice_count) and all(
        finish.finish_reason == answer_pb2.FINISH_REASON_STOP for finish in done.finishes
    )


def cached_answer(
    label: router_pb2.RouteLabel, deltas: Sequence[answer_pb2.Delta], done: engine_pb2.Done, clock: Clock
) -> cache_pb2.CachedAnswer:
    """Returns an answer as the cache keeps it."""
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
    answer.create_time.FromMilliseconds(round(clock.wall() * 1000))
    return answer
