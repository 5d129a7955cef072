"""How likely a tier's answer would be judged right, from its first tokens: pure functions of values.

A mean log-probability alone is no confidence: a model in a loop is very sure of itself. Loops,
refusals and the operator's safety phrases therefore count before any probability, and without a
calibration a tier's log-probabilities count for nothing at all, since nobody knows what they mean
for that model and kind of work.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum

from tiermesh.router.escalation.detectors import holds_phrase, refuses, repeats_itself
from tiermesh.shared.answer_features import Scored, features_of
from tiermesh.shared.calibration import Features, confidence_of
from tiermesh.shared.config import BandConfig, CalibrationConfig

LOW_CONFIDENCE, REPETITION, REFUSAL, SAFETY = "low_confidence", "repetition", "refusal", "safety"
_OBJECTED = {REPETITION: 0.05, REFUSAL: 0.1, SAFETY: 0.05}
"""Confidence in answers that a detector objects to."""


class Step(Enum):
    """What a judgement asks for."""

    ACCEPT = "accept"
    NEXT = "next"
    """The next stronger tier."""
    TOP = "top"
    """The strongest tier."""


@dataclass(frozen=True, slots=True)
class Judgement:
    """What is thought of an answer."""

    step: Step
    confidence: float | None
    """Probability that it would be judged right; None where the tier has no calibration and nothing spoke against it."""
    objection: str = ""
    """`low_confidence`, `repetition`, `refusal` or `safety`; empty for an accepted answer."""
    features: Features | None = None
    """What its log-probabilities look like, where the engine told them."""


@dataclass(frozen=True, slots=True)
class Sample:
    """What has come of one choice."""

    text: str
    logprobs: Sequence[Scored] = ()


def judge(
    samples: Sequence[Sample], *, calibration: CalibrationConfig | None, band: BandConfig, safety_phrases: Sequence[str]
) -> Judgement:
    """Returns what is thought of an answer; of several choices the worst counts."""
    judged = [_judge(sample, calibration, band, safety_phrases) for sample in samples]
    return min(judged, key=lambda one: 1.0 if one.confidence is None else one.confidence)


def _judge(
    sample: Sample, calibration: CalibrationConfig | None, band: BandConfig, safety_phrases: Sequence[str]
) -> Judgement:
    features = features_of(sample.logprobs)
    objection = _objection(sample.text, safety_phrases)
    if objection:
        return Judgement(Step.TOP, _OBJECTED[objection], objection, features)
    if calibration is None or features is None:
        return Judgement(Step.ACCEPT, None, features=features)
    confidence = confidence_of(
        features,
        intercept=calibration.intercept,
        mean=calibration.mean,
        window=calibration.window,
        margin=calibration.margin,
    )
    if confidence < band.top_below:
        return Judgement(Step.TOP, confidence, LOW_CONFIDENCE, features)
    if confidence < band.next_below:
        return Judgement(Step.NEXT, confidence, LOW_CONFIDENCE, features)
    return Judgement(Step.ACCEPT, confidence, features=features)


def _objection(text: str, safety_phrases: Sequence[str]) -> str:
    if holds_phrase(text, safety_phrases):
        return SAFETY
    if repeats_itself(text):
        return REPETITION
    return REFUSAL if refuses(text) else ""
