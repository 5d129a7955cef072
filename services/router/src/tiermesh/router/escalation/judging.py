"""Judges attempts by the configuration in force, and learns from those that are complete."""

from __future__ import annotations

from tiermesh.router.course import Course
from tiermesh.router.escalation.confidence import Judgement, judge
from tiermesh.router.telling import observe
from tiermesh.router.tiers.estimates import TierEstimates
from tiermesh.router.tiers.tier_attempt import TierAttempt


def judge_attempt(course: Course, attempt: TierAttempt) -> Judgement:
    """Judges what has come of an attempt so far, once and for all; returns the judgement."""
    escalation, kind = course.call.snapshot.config.escalation, course.decision.task_type
    attempt.judgement = judge(
        attempt.samples(),
        calibration=escalation.calibration(attempt.tier.name, kind, model=attempt.tier.public_model),
        band=escalation.band(kind),
        safety_phrases=escalation.safety_phrases,
    )
    observe.record_judgement(course.call.span, attempt.tier.name, attempt.judgement)
    return attempt.judgement


def learn_from(estimates: TierEstimates, attempt: TierAttempt) -> None:
    """Notes what a complete answer took."""
    assert attempt.done is not None
    name, usage, parts = attempt.tier.name, attempt.done.usage, attempt.observed()
    estimates.ended(name, failed=False)
    estimates.waited(name, parts.queue)
    estimates.answered(
        name,
        prefill_s=parts.prefill,
        decode_s=parts.decode,
        prompt_tokens=usage.prompt_token_count,
        answer_tokens=usage.completion_token_count,
        choices=attempt.choices,
    )
