"""Labels, cache plans, versions, health and errors."""

from pathlib import Path

import pytest
from tiermesh.api.classifier.v1 import classifier_pb2
from tiermesh.api.common.v1 import answer_pb2, chat_pb2
from tiermesh.api.router.v1 import router_pb2
from tiermesh.router.openai.errors import openai_trailers
from tiermesh.router.policy.task_types import task_type_name, task_type_value
from tiermesh.router.settings import make_snapshot
from tiermesh.router.telling.label import label_headers
from tiermesh.router.tiers.attempt import broken_off, nobody_answered, why_next
from tiermesh.router.tiers.health import TierHealth
from tiermesh.shared.budget import Budget
from tiermesh.shared.config import parse_config
from tiermesh.shared.errors import (
    ERROR_TABLE,
    BudgetExhausted,
    ContextTooLong,
    InferenceTimeout,
    NoEligibleTier,
    NotApplicable,
    QueueFull,
    StreamBroken,
    Unavailable,
    error_for_reason,
)
from tiermesh.shared.rpc import error_of, failure_of
from tiermesh.shared.testing import FakeClock


def test_headers_are_ascii_and_leave_out_what_is_empty():
    label = router_pb2.RouteLabel(
        request_id="r",
        tier="l1",
        model="模型, v2",
        cache_status=router_pb2.CACHE_STATUS_BYPASS,
        task_type=classifier_pb2.TASK_TYPE_LONG_CONTEXT,
        reasons=["rule:代码", "unavailable:l2"],
        complexity=0.5,
    )
    found = dict(label_headers(label))
    assert all(value.isascii() and value.isprintable() for value in found.values())
    assert found["x-tiermesh-reasons"] == "rule:%E4%BB%A3%E7%A0%81,unavailable:l2"
    assert found["x-tiermesh-model"] == "%E6%A8%A1%E5%9E%8B%2C v2"
    assert found["x-tiermesh-task-type"] == "long_context"
    assert found["x-tiermesh-complexity"] == "0.50"
    assert "x-tiermesh-simulated" not in found
    assert "x-tiermesh-trace-id" not in found


def test_task_type_names_go_both_ways():
    for number in classifier_pb2.TaskType.values():
        assert task_type_value(task_type_name(number)) == number
    assert task_type_name(99) == "unspecified"
    assert task_type_value("nonesuch") == classifier_pb2.TASK_TYPE_UNSPECIFIED


RAW = {
    "tenants": [{"name": "a", "key_env": "K"}],
    "tiers": [{"name": "l1", "backend": "vllm", "model": "m", "context_tokens": 2048, "answer_tokens": 256}],
}


def snapshot(rules=b"", **tier):
    raw = {**RAW, "tiers": [{**RAW["tiers"][0], **tier}]}
    return make_snapshot(parse_config(raw, Path("/x/mesh.yaml")), rules=rules, loaded_at=5.9)


def test_the_version_is_of_content():
    assert snapshot().version == snapshot().version
    assert len(snapshot().version) == 12
    assert snapshot(replicas=2).version != snapshot().version
    assert snapshot(rules=b"x").version != snapshot().version


@pytest.mark.parametrize("change", [{"replicas": 2}, {"slots": 2}, {"price_in": 1.0}, {"cpu_cores": "0"}])
def test_where_a_tier_runs_does_not_change_its_answers(change):
    assert snapshot(**change).answers_version == snapshot().answers_version


@pytest.mark.parametrize(
    "change", [{"model": "n"}, {"answer_tokens": 100}, {"dtype": "float16"}, {"max_complexity": 0.5}, {"rules": b"x"}]
)
def test_what_a_tier_is_does(change):
    assert snapshot(**change).answers_version != snapshot().answers_version


def test_a_failure_is_remembered_for_a_second_or_until_an_answer():
    clock = FakeClock()
    health = TierHealth(clock)
    health.failed("l1")
    health.failed("l2")
    assert health.unavailable() == {"l1", "l2"}
    health.answered("l2")
    clock.advance(0.99)
    assert health.unavailable() == {"l1"}
    clock.advance(0.02)
    assert health.unavailable() == frozenset()


@pytest.mark.parametrize("reason", sorted(ERROR_TABLE))
def test_only_failures_that_another_tier_need_not_share_move_on(reason):
    moves = {
        "NOT_APPLICABLE": "declined",
        "UNAVAILABLE": "unavailable",
        "NO_ELIGIBLE_TIER": "unavailable",
        "MODEL_LOAD_FAILED": "unavailable",
        "DEVICE_FAILED": "unavailable",
        "STREAM_BROKEN": "broken_off",
        "OUT_OF_MEMORY": "unavailable",
        "QUEUE_FULL": "queue_full",
        "RATE_LIMITED": "queue_full",
        "BREAKER_OPEN": "breaker_open",
        "CONTEXT_TOO_LONG": "context_too_long",
    }
    error = error_for_reason(reason, "x")
    assert why_next(error, chat_pb2.PRIORITY_INTERACTIVE) == moves.get(reason)
    # Batch work does not go on to a dearer tier because the first has no room.
    full = {"QUEUE_FULL", "RATE_LIMITED", "BREAKER_OPEN"}
    assert why_next(error, chat_pb2.PRIORITY_BATCH) == (None if reason in full else moves.get(reason))


def test_what_ends_an_answer_early():
    clock = FakeClock()
    budget = Budget.of(1, clock)
    late = BudgetExhausted("late")
    assert broken_off(late, tier="l1", pieces=1, budget=budget) is late
    assert isinstance(broken_off(Unavailable("reset"), tier="l1", pieces=1, budget=budget), StreamBroken)
    clock.advance(1)
    assert isinstance(broken_off(Unavailable("reset"), tier="l1", pieces=1, budget=budget), InferenceTimeout)


def test_the_error_of_many():
    full, gone, long, no = QueueFull("f", retry_after=2), Unavailable("g"), ContextTooLong("c"), NotApplicable("n")
    assert nobody_answered([("l1", no)]).message == "tier l1: n"
    assert nobody_answered([("l1", gone), ("l2", full)]).retry_after == 2
    assert isinstance(nobody_answered([("l1", gone), ("l2", gone)]), NoEligibleTier)
    assert isinstance(nobody_answered([("l0", no), ("l1", long)]), ContextTooLong)
    assert isinstance(nobody_answered([("l1", long), ("l2", gone)]), NoEligibleTier)


@pytest.mark.parametrize("reason", sorted(ERROR_TABLE))
def test_failure_events_carry_every_error_there_and_back(reason):
    error = error_for_reason(reason, "消息", field="f", retry_after=1.5)
    back = error_of(answer_pb2.Failure.FromString(failure_of(error).SerializeToString()))
    assert (type(back), back.message, back.field, back.retry_after) == (type(error), "消息", "f", 1.5)


def test_error_bodies_fit_into_a_header():
    error = Unavailable("长" * 5000)
    ((name, value),) = openai_trailers("/tiermesh.api.openai.v1.OpenAIService/ListModels", error)
    assert name == "x-openai-error"
    assert value.isascii()
    assert "\n" not in value
    assert len(value) < 2000
    assert openai_trailers("/tiermesh.api.router.v1.RouterService/Generate", error) == ()
