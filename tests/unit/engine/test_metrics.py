"""What an engine counts."""

import pytest
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from tiermesh.engine.engine import Ended
from tiermesh.engine.load import Load
from tiermesh.engine.metrics import EngineMetrics
from tiermesh.engine.ports import Finish, Lane


def ended(tokens, choices=1):
    return Ended(
        finishes=tuple((n, Finish.STOP) for n in range(choices)),
        prompt_tokens=30,
        completion_tokens=tokens,
        cached_prompt_tokens=16,
        queue_s=0.2,
        prefill_s=0.3,
        decode_s=0.9,
        rule="",
        tokenize_s=0.1,
        detokenize_s=0.1,
    )


@pytest.fixture
def counted():
    reader = InMemoryMetricReader()
    load = Load(running=2, waiting=3, slots=4, queue_limit=8, kv_cache_utilization=0.5, aborted=1, generated_tokens=99)
    metrics = EngineMetrics(MeterProvider([reader]).get_meter("t"), tier="l1", model="m", load=lambda: load)

    def read(name):
        data = reader.get_metrics_data()
        found = [m for r in data.resource_metrics for s in r.scope_metrics for m in s.metrics if m.name == name]
        return [point for metric in found for point in metric.data.data_points]

    return metrics, read


def test_an_answers_time_is_told_apart(counted):
    metrics, read = counted
    metrics.answered(ended(11), Lane.INTERACTIVE)
    (whole,) = read("gen_ai.server.request.duration")
    assert whole.sum == pytest.approx(1.6)
    assert (whole.attributes["tier"], whole.attributes["lane"]) == ("l1", "interactive")
    assert whole.attributes["gen_ai.response.model"] == "m"
    assert read("gen_ai.server.time_to_first_token")[0].sum == pytest.approx(0.6)
    assert read("gen_ai.server.time_per_output_token")[0].sum == pytest.approx(0.1)
    assert read("tiermesh.engine.queue.duration")[0].sum == pytest.approx(0.2)
    tokens = {point.attributes["type"]: point.value for point in read("tiermesh.engine.tokens")}
    assert tokens == {"prompt": 30, "cached_prompt": 16, "completion": 11}


def test_time_per_token_is_that_of_one_choice_and_needs_two_tokens(counted):
    metrics, read = counted
    metrics.answered(ended(1), Lane.BATCH)
    assert read("gen_ai.server.time_per_output_token") == []
    metrics.answered(ended(22, choices=2), Lane.BATCH)
    assert read("gen_ai.server.time_per_output_token")[0].sum == pytest.approx(0.1)


def test_durations_fall_into_buckets_of_their_size(counted):
    metrics, read = counted
    metrics.answered(ended(11), Lane.INTERACTIVE)
    (first,) = read("gen_ai.server.time_to_first_token")
    # OpenTelemetry's own would put all below 5 s into one.
    assert sum(bound < 5 for bound in first.explicit_bounds) > 8


def test_load_and_failures_are_read(counted):
    metrics, read = counted
    metrics.failed("QUEUE_FULL")
    assert [(p.value, p.attributes["reason"]) for p in read("tiermesh.engine.failures")] == [(1, "QUEUE_FULL")]
    values = {name: read(f"tiermesh.engine.{name}")[0].value for name in ("running", "waiting", "slots", "generated")}
    assert values == {"running": 2, "waiting": 3, "slots": 4, "generated": 99}
