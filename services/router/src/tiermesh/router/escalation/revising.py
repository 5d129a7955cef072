"""Progressive mode: after the quick answer, stronger tiers try to improve on it within the budget.

The caller has asked for that, so an answer is revised unless it is known to be good: accepted by a
calibrated judgement. A stronger tier's answer replaces it only if nothing speaks against that one,
or less than against the first.
"""

from __future__ import annotations

from contextlib import aclosing

from tiermesh.api.router.v1 import router_pb2
from tiermesh.router.course import Course
from tiermesh.router.escalation.confidence import Judgement, Step
from tiermesh.router.escalation.judging import judge_attempt, learn_from
from tiermesh.router.ports import EnginePool
from tiermesh.router.telling.metrics import RequestMetrics
from tiermesh.router.tiers.engine_request import engine_request
from tiermesh.router.tiers.failover import note_failure
from tiermesh.router.tiers.tier_attempt import ANSWERED, REJECTED, TierAttempt
from tiermesh.router.tiers.watch import TierWatch
from tiermesh.shared.errors import StreamBroken, TiermeshError


class Reviser:
    """Improves on complete answers.

    Args:
        engines: The engines of every tier.
        watch: What is known of the tiers; told how they do.
        metrics: Counts refusals.
    """

    def __init__(self, engines: EnginePool, watch: TierWatch, metrics: RequestMetrics) -> None:
        self._engines = engines
        self._watch = watch
        self._metrics = metrics

    async def improve(self, course: Course, first: TierAttempt) -> TierAttempt | None:
        """Returns a stronger tier's complete and better answer, or None; never fails for want of one.

        Args:
            course: The request's way; attempts and reasons are noted there.
            first: A complete, judged answer.
        """
        judgement = first.judgement
        assert judgement is not None
        if judgement.step is Step.ACCEPT and judgement.confidence is not None:
            return None
        gates = course.gates(first.tier, Step.NEXT if judgement.step is Step.ACCEPT else judgement.step)
        if gates.tier is None:
            course.later.append(course.skip(gates.shut))
            return None
        why = judgement.objection or "progressive"
        second = TierAttempt(
            course.take(gates.tier),
            budget=course.budget(),
            account=course.call.account,
            sampling=course.call.request.sampling,
            judge_after=1,
            feedback=self._watch.feedback,
        )
        try:
            await self._run(course, second)
        except TiermeshError as error:
            note_failure(course, second, error, watch=self._watch, metrics=self._metrics)
            course.later.append(f"revision_failed:{second.tier.name}")
            course.escalation_skipped |= judgement.step is not Step.ACCEPT
            return None
        found = judge_attempt(course, second)
        better = _better(found, judgement)
        course.ended(second.end(ANSWERED if better else REJECTED), found)
        learn_from(self._watch.estimates, second)
        if not better:
            course.later.append(f"revision_no_better:{second.tier.name}")
            course.escalation_skipped |= judgement.step is not Step.ACCEPT
            return None
        course.later.append(f"{why}:{first.tier.name}")
        return second

    async def _run(self, course: Course, attempt: TierAttempt) -> None:
        request = engine_request(course.call, attempt.tier, judged=True)
        async with aclosing(self._engines.generate(attempt.tier.name, request, budget=attempt.budget)) as events:
            async for event in events:
                attempt.take(event)
        if attempt.done is None:
            raise StreamBroken("the stream ended without a terminal event")


def revision_of(attempt: TierAttempt, *, why: str) -> router_pb2.Revision:
    """Returns a complete answer as the event that replaces an earlier one."""
    assert attempt.done is not None
    tier, started = attempt.tier, attempt.started
    return router_pb2.Revision(
        tier=tier.name,
        model=tier.public_model,
        texts=[sample.text for sample in attempt.samples()],
        finishes=attempt.done.finishes,
        reasons=[why],
        simulated=tier.backend == "simulated" or (started is not None and started.simulated),
    )


def _better(second: Judgement, first: Judgement) -> bool:
    if second.step is Step.ACCEPT:
        return True
    return (second.confidence or 0.0) > (1.0 if first.confidence is None else first.confidence)
