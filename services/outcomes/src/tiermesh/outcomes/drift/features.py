"""What of a request is compared with earlier ones: pure."""

from __future__ import annotations

from collections.abc import Mapping

from tiermesh.api.classifier.v1 import classifier_pb2
from tiermesh.api.outcome.v1 import record_pb2

Value = float | str
"""A number, or the name of a kind."""
CONFIDENCE = "confidence"
"""Features of this name, or of this name and a tier's such as `confidence_l1`, say how sure one was."""
_PREFIX = "TASK_TYPE_"


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


def task_type_of(outcome: record_pb2.Outcome) -> str:
    """Returns the kind of work by the name that configuration and labels use."""
    number = outcome.features.task_type
    values = classifier_pb2.TaskType.values()
    name = classifier_pb2.TaskType.Name(number) if number in values else "TASK_TYPE_UNSPECIFIED"
    return name.removeprefix(_PREFIX).lower()
