"""What the router writes on its server span."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from opentelemetry.trace import Span
from tiermesh.api.cache.v1 import cache_pb2
from tiermesh.api.classifier.v1 import classifier_pb2
from tiermesh.api.common.v1 import answer_pb2
from tiermesh.api.router.v1 import router_pb2
from tiermesh.router.escalation.confidence import Judgement
from tiermesh.router.policy.gain import Gain
from tiermesh.router.policy.task_types import task_type_name
from tiermesh.router.telling.label import cache_status_name
from tiermesh.shared.ledger import PART_NAMES, Statement


def record_classification(span: Span, response: classifier_pb2.ClassifyResponse | None) -> None:
    """Writes the judgement. What it rests on is on the classifier's own span, in the same trace."""
    if response is None or not span.is_recording():
        return
    span.set_attributes(
        {
            "tiermesh.classifier.source": response.source,
            "tiermesh.classifier.confidence": response.confidence,
            "tiermesh.classifier.rules": tuple(response.rules),
            "tiermesh.classifier.languages": tuple(response.languages),
            "tiermesh.classifier.version": response.version,
        }
    )


def record_gains(span: Span, gains: Mapping[str, Gain]) -> None:
    """Writes what each tier is worth for the request, where that decided."""
    if gains and span.is_recording():
        span.set_attributes(
            {
                "tiermesh.gain.tiers": tuple(gains),
                "tiermesh.gain.right": tuple(round(gain.right, 4) for gain in gains.values()),
                "tiermesh.gain.cost": tuple(round(gain.cost, 9) for gain in gains.values()),
                "tiermesh.gain.worth": tuple(round(gain.worth, 4) for gain in gains.values()),
            }
        )


_LAYERS: dict[int, str] = {
    cache_pb2.CACHE_RESULT_HIT_EXACT: "exact",
    cache_pb2.CACHE_RESULT_HIT_SEMANTIC: "semantic",
}


def record_lookup(span: Span, found: cache_pb2.LookupResponse) -> None:
    """Writes what the semantic tier said, where it said anything, and that an answer is stale."""
    if found.similarity:
        span.set_attribute("tiermesh.cache.similarity", round(found.similarity, 3))
        span.set_attribute("tiermesh.cache.threshold", round(found.threshold, 3))
    if found.passed_guards:
        span.set_attribute("tiermesh.cache.passed_guards", tuple(found.passed_guards))
    if found.refused_by:
        span.set_attribute("tiermesh.cache.refused_by", found.refused_by)
    if found.result in _LAYERS:
        span.set_attribute("tiermesh.cache.layer", _LAYERS[found.result])
    if found.stale:
        span.set_attribute("tiermesh.cache.stale", True)


def record_route(span: Span, label: router_pb2.RouteLabel, *, tenant: str) -> None:
    """Writes the route label."""
    if not span.is_recording():
        return
    span.set_attributes(
        {
            "tiermesh.request_id": label.request_id,
            "tiermesh.tenant": tenant,
            "tiermesh.tier": label.tier,
            "tiermesh.model": label.model,
            "tiermesh.cache": cache_status_name(label.cache_status),
            "tiermesh.task_type": task_type_name(label.task_type),
            "tiermesh.complexity": label.complexity,
            "tiermesh.reasons": tuple(label.reasons),
            "tiermesh.simulated": label.simulated,
            "tiermesh.config_version": label.config_version,
        }
    )
    record_breakers(span, [verdict.tier for verdict in label.verdicts if verdict.breaker_open])


def record_breakers(span: Span, open_breakers: Collection[str]) -> None:
    """Writes the tiers whose circuit breaker is open for the request's priority; nothing where all are closed."""
    if open_breakers and span.is_recording():
        span.set_attribute("tiermesh.breakers_open", tuple(sorted(open_breakers)))


def record_attempts(span: Span, attempts: Sequence[router_pb2.Attempt]) -> None:
    """Writes every engine call made, as `tier=outcome`."""
    if attempts and span.is_recording():
        span.set_attribute("tiermesh.attempts", tuple(f"{a.tier}={a.outcome}" for a in attempts))


def record_judgement(span: Span, tier: str, judgement: Judgement) -> None:
    """Writes what was thought of a tier's answer; `tiermesh calibrate` reads features and confidence from here."""
    if not span.is_recording():
        return
    found: dict[str, str | float] = {"tiermesh.judged.tier": tier, "tiermesh.judged.step": judgement.step.value}
    if judgement.objection:
        found["tiermesh.judged.objection"] = judgement.objection
    if judgement.confidence is not None:
        found["tiermesh.judged.confidence"] = round(judgement.confidence, 4)
    if judgement.features is not None:
        found["tiermesh.judged.mean_logprob"] = round(judgement.features.mean_logprob, 4)
        found["tiermesh.judged.worst_window_logprob"] = round(judgement.features.worst_window_logprob, 4)
        found["tiermesh.judged.mean_margin"] = round(judgement.features.mean_margin, 4)
    span.set_attributes(found)


def record_ledger(span: Span, statement: Statement) -> None:
    """Writes where the time went, in milliseconds."""
    if not span.is_recording():
        return
    found: dict[str, str | float] = {
        f"tiermesh.ledger.{name}_ms": round(getattr(statement.parts, name) * 1000, 2) for name in PART_NAMES
    }
    found["tiermesh.ledger.total_ms"] = round(statement.total * 1000, 2)
    found["tiermesh.ledger.held_ms"] = round(statement.ledger.held * 1000, 2)
    found["tiermesh.budget.out_ms"] = round(statement.budget_out * 1000, 1)
    if statement.ledger.lane:
        found["tiermesh.lane"] = statement.ledger.lane
    span.set_attributes(found)


def record_afterthoughts(span: Span, reasons: Sequence[str]) -> None:
    """Writes what came up after the label had gone out."""
    if reasons and span.is_recording():
        span.set_attribute("tiermesh.later_reasons", tuple(reasons))


def record_first_text(span: Span, seconds: float) -> None:
    """Writes the time from arrival to the first piece of text."""
    if span.is_recording():
        span.set_attribute("tiermesh.ttft_ms", round(seconds * 1000, 2))


def record_usage(span: Span, usage: answer_pb2.Usage) -> None:
    """Writes the tokens of the answer."""
    if span.is_recording():
        span.set_attributes(
            {
                "tiermesh.prompt_tokens": usage.prompt_token_count,
                "tiermesh.completion_tokens": usage.completion_token_count,
            }
        )
