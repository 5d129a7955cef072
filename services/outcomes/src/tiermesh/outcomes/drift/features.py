"""What of a request is compared with earlier ones: pure."""

from __future__ import annotations

from collections.abc import Mapping

from tiermesh.api.outcome.v1 import record_pb2
from tiermesh.shared.outcomes import task_type_of

Value = float | str
"""A number, or the name of a kind."""
CONFIDENCE = "confidence"
"""Features of this name, or of this name and a tier's such as `confidence_l1`, say how sure one was."""


def features_of(outcome: record_pb2.Outcome) -> Mapping[str, Value]:
    """Returns the features of a request by name, without those that are not known of it."""
    features = outcome.features
    found: dict[str, Value] = {
        "task_type": task_type_of(outcome),
        "complexity": features.complexity,
        "prompt_tokens": float(features.prompt_token_count),
        "messages": float(features.message_count),
    }
    if features.source:
        found["source"] = features.source
    if features.languages:
        found["language"] = features.languages[0]
    if features.HasField("confidence"):
        found[CONFIDENCE] = features.confidence
    for each in outcome.tries:
        # Of one tier only: what a confidence means differs from tier to tier.
        if each.HasField("confidence"):
            found[f"{CONFIDENCE}_{each.tier}"] = each.confidence
    if outcome.tries and outcome.result.outcome == "ok":
        found["answer_tokens"] = float(outcome.tries[-1].usage.completion_token_count)
    return found
