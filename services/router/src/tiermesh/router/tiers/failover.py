"""After an engine call has failed: what is learnt of its tier, and where the request goes."""

from __future__ import annotations

from tiermesh.router.course import Course
from tiermesh.router.policy.lanes import priority_name
from tiermesh.router.telling import observe
from tiermesh.router.telling.metrics import RequestMetrics
from tiermesh.router.tiers.attempt import broken_off, failed_at, is_fault, is_outage, nobody_answered, why_next
from tiermesh.router.tiers.tier_attempt import TierAttempt
from tiermesh.router.tiers.watch import TierWatch
from tiermesh.shared.config import TierConfig
from tiermesh.shared.errors import BreakerOpen, BudgetExhausted, StreamBroken, TiermeshError


def note_failure(
    course: Course, attempt: TierAttempt, error: TiermeshError, *, watch: TierWatch, metrics: RequestMetrics
) -> None:
    """Enters a failed call into the request's account, and what it says of its tier into what is known of that."""
    tier, call = attempt.tier.name, course.call
    course.ended(attempt.end(error.reason, error), attempt.judgement)
    observe.record_attempts(call.span, course.attempts)
    watch.estimates.ended(tier, failed=is_fault(error))
    if is_outage(error):
        watch.health.failed(tier)
    if isinstance(error, BreakerOpen):
        priority = call.request.priority
        watch.breakers.refused(tier, priority)
        observe.record_breakers(call.span, watch.breakers.open_for(priority))
        metrics.breaker_refused(tier=tier, priority=priority_name(priority))


def tier_after(course: Course, attempt: TierAttempt, error: TiermeshError, *, committed: bool) -> TierConfig:
    """Returns the tier to try after a failed one, and takes it.

    Args:
        course: The request's way.
        attempt: The call that failed.
        error: What it failed with.
        committed: Whether something of its answer has gone out, so that no other tier may be asked.

    Raises:
        TiermeshError: the request ends here.
    """
    tier = attempt.tier
    if committed and attempt.failure_reported:
        raise failed_at(tier.name, error)
    if committed or (isinstance(error, StreamBroken) and attempt.budget.exhausted):
        raise broken_off(error, tier=tier.name, pieces=len(attempt.deltas), budget=attempt.budget)
    if course.decision.pinned:
        raise failed_at(tier.name, error)
    course.failures.append((tier.name, error))
    if isinstance(error, BudgetExhausted):
        # Refused as hopeless there; a tier that is predicted to be in time is none.
        target = course.gates_anywhere().tier if course.call.snapshot.config.escalation.enabled else None
        if target is None or attempt.started is not None:
            raise failed_at(tier.name, error)
        course.reasons.append(f"hopeless:{tier.name}")
        return course.take(target)
    why = why_next(error, course.call.request.priority)
    if why is None:
        raise failed_at(tier.name, error)
    course.reasons.append(f"{why}:{tier.name}")
    following = course.next()
    if following is None:
        raise nobody_answered(course.failures)
    return following
