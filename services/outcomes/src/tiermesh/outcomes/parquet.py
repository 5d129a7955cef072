"""Records as a Parquet file: one row a request, flat where it can be. Needs `tiermesh-outcomes[parquet]`."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import islice
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from google.protobuf import json_format
from tiermesh.api.outcome.v1 import record_pb2
from tiermesh.outcomes.export import whole_file
from tiermesh.shared.outcomes import task_type_of, verdict

ROWS = 5000
"""Of one row group."""
_STRINGS = pa.list_(pa.string())
_CANDIDATE = pa.struct(
    [
        ("tier", pa.string()),
        ("probability", pa.float64()),
        ("expected_reward", pa.float64()),
        ("last_resort", pa.bool_()),
    ]
)
_TRY = pa.struct(
    [
        ("tier", pa.string()),
        ("outcome", pa.string()),
        ("prompt_tokens", pa.int32()),
        ("completion_tokens", pa.int32()),
        ("cost", pa.float64()),
        ("confidence", pa.float64()),
        ("objection", pa.string()),
        ("mean_logprob", pa.float64()),
        ("worst_window_logprob", pa.float64()),
        ("mean_margin", pa.float64()),
    ]
)
_FEEDBACK = pa.struct(
    [
        ("score", pa.float64()),
        ("source", pa.string()),
        ("judge", pa.string()),
        ("reported", pa.timestamp("us", "UTC")),
    ]
)
SCHEMA = pa.schema(
    [
        ("request_id", pa.string()),
        ("tenant", pa.string()),
        ("trace_id", pa.string()),
        ("arrived", pa.timestamp("us", "UTC")),
        ("config_version", pa.string()),
        ("sample_rate", pa.float64()),
        ("task_type", pa.string()),
        ("complexity", pa.float64()),
        ("confidence", pa.float64()),
        ("source", pa.string()),
        ("rules", _STRINGS),
        ("languages", _STRINGS),
        ("prompt_token_count", pa.int32()),
        ("max_token_count", pa.int32()),
        ("expected_output_token_count", pa.int32()),
        ("small_right_probability", pa.float64()),
        ("large_right_probability", pa.float64()),
        ("model_version", pa.string()),
        ("measures", pa.map_(pa.string(), pa.float64())),
        ("candidates", pa.list_(_CANDIDATE)),
        ("propensity", pa.float64()),
        ("policy", pa.string()),
        ("policy_version", pa.string()),
        ("pinned", pa.bool_()),
        ("explored", pa.bool_()),
        ("lane", pa.string()),
        ("reasons", _STRINGS),
        ("outcome", pa.string()),
        ("tier", pa.string()),
        ("model", pa.string()),
        ("cache", pa.string()),
        ("simulated", pa.bool_()),
        ("escalated", pa.bool_()),
        ("escalation_skipped", pa.string()),
        ("revised", pa.bool_()),
        ("prompt_tokens", pa.int32()),
        ("completion_tokens", pa.int32()),
        ("ttft_ms", pa.float64()),
        ("total_ms", pa.float64()),
        ("cost", pa.float64()),
        ("tries", pa.list_(_TRY)),
        ("verdict", pa.float64()),
        ("feedback", pa.list_(_FEEDBACK)),
        ("messages_json", pa.string()),
        ("answers", _STRINGS),
    ],
    metadata={"tiermesh.schema_version": "1"},
)
"""Columns of the file; `verdict` is what the feedback comes to."""


def write_parquet(outcomes: Iterable[record_pb2.Outcome], path: Path) -> int:
    """Writes records; returns how many.

    Raises:
        OSError: the file cannot be written.
    """
    count = 0
    with whole_file(path) as fresh, pq.ParquetWriter(fresh, SCHEMA, compression="zstd") as writer:
        for batch in _batches(outcomes):
            rows = [_row(outcome) for outcome in batch]
            writer.write_table(pa.Table.from_pylist(rows, schema=SCHEMA))
            count += len(rows)
    return count


def _batches(outcomes: Iterable[record_pb2.Outcome]) -> Iterable[Sequence[record_pb2.Outcome]]:
    source = iter(outcomes)
    return iter(lambda: list(islice(source, ROWS)), [])


def _row(outcome: record_pb2.Outcome) -> dict[str, Any]:
    features, decision, result = outcome.features, outcome.decision, outcome.result
    return {
        "request_id": outcome.request_id,
        "tenant": outcome.tenant,
        "trace_id": outcome.trace_id,
        "arrived": outcome.arrived.ToMicroseconds(),
        "config_version": outcome.config_version,
        "sample_rate": outcome.sample_rate,
        "task_type": task_type_of(outcome),
        "complexity": features.complexity,
        "confidence": _given(features, "confidence"),
        "source": features.source,
        "rules": list(features.rules),
        "languages": list(features.languages),
        "prompt_token_count": features.prompt_token_count,
        "max_token_count": features.max_token_count,
        "expected_output_token_count": features.expected_output_token_count,
        "small_right_probability": _given(features, "small_right_probability"),
        "large_right_probability": _given(features, "large_right_probability"),
        "model_version": features.model_version,
        "measures": sorted(features.measures.items()),
        "candidates": [
            {
                "tier": each.tier,
                "probability": each.probability,
                "expected_reward": _given(each, "expected_reward"),
                "last_resort": each.last_resort,
            }
            for each in decision.candidates
        ],
        "propensity": decision.propensity if outcome.HasField("decision") else None,
        "policy": decision.policy,
        "policy_version": decision.policy_version,
        "pinned": decision.pinned,
        "explored": decision.explored,
        "lane": decision.lane,
        "reasons": list(decision.reasons),
        "outcome": result.outcome,
        "tier": result.tier,
        "model": result.model,
        "cache": result.cache,
        "simulated": result.simulated,
        "escalated": result.escalated,
        "escalation_skipped": result.escalation_skipped,
        "revised": result.revised,
        "prompt_tokens": result.usage.prompt_token_count,
        "completion_tokens": result.usage.completion_token_count,
        "ttft_ms": result.time_to_first_token.ToMicroseconds() / 1000,
        "total_ms": result.total.ToMicroseconds() / 1000,
        "cost": result.cost,
        "tries": [_try_row(each) for each in outcome.tries],
        "verdict": verdict(outcome),
        "feedback": [
            {
                "score": each.score,
                "source": record_pb2.FeedbackSource.Name(each.source).removeprefix("FEEDBACK_SOURCE_").lower(),
                "judge": each.judge,
                "reported": each.reported.ToMicroseconds(),
            }
            for each in outcome.feedback
        ],
        "messages_json": json_format.MessageToJson(
            record_pb2.Text(messages=outcome.text.messages), preserving_proto_field_name=True, indent=None, ensure_ascii=False
        )
        if outcome.HasField("text")
        else None,
        "answers": list(outcome.text.answers) if outcome.HasField("text") else None,
    }  # fmt: skip


def _try_row(found: record_pb2.Try) -> dict[str, Any]:
    seen = found.logprobs if found.HasField("logprobs") else None
    return {
        "tier": found.tier,
        "outcome": found.outcome,
        "prompt_tokens": found.usage.prompt_token_count,
        "completion_tokens": found.usage.completion_token_count,
        "cost": found.cost,
        "confidence": _given(found, "confidence"),
        "objection": found.objection,
        "mean_logprob": seen.mean_logprob if seen else None,
        "worst_window_logprob": seen.worst_window_logprob if seen else None,
        "mean_margin": seen.mean_margin if seen else None,
    }


def _given(message: Any, field: str) -> Any:
    """Returns a field's value, or None where it is not set."""
    return getattr(message, field) if message.HasField(field) else None
