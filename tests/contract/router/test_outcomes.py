"""What the router records of requests, and how it passes reports on: over real connections."""

import asyncio

import pytest
from harness.router import METADATA, ask, running_router
from tiermesh.api.classifier.v1 import classifier_pb2
from tiermesh.api.common.v1 import answer_pb2, chat_pb2
from tiermesh.api.outcome.v1 import record_pb2
from tiermesh.shared.errors import FeatureOff, InvalidRequest, QueueFull, Unauthenticated, Unavailable, UnknownRequest
from tiermesh.shared.testing import answer_steps

ON = {"enabled": True}
TIERS = [
    {"name": "l1", "backend": "vllm", "model": "small", "max_complexity": 0.5, "price_in": 1.0, "price_out": 2.0},
    {"name": "l2", "backend": "vllm", "model": "large", "context_tokens": 8192, "price_in": 10.0, "price_out": 20.0},
]


def judged(task_type=classifier_pb2.TASK_TYPE_QA, complexity=0.3, **fields):
    return classifier_pb2.ClassifyResponse(
        task_type=task_type, complexity=complexity, confidence=0.9, source="model", languages=["en"], **fields
    )


async def test_a_request_leaves_a_record_of_what_was_known_decided_and_came_of_it():
    async with running_router(outcomes=ON, tiers=TIERS) as mesh:
        mesh.classifier.response = judged(
            rules=["r1"], features={"chars": 16.0}, small_right_probability=0.7, estimated_prompt_token_count=11
        )
        answer = await mesh.generate(ask("What is a river?", sampling=chat_pb2.Sampling(max_tokens=50)))
        (record,) = await mesh.outcomes.wait_for(1)
    assert (record.schema_version, record.tenant, record.request_id) == (1, "acme", "req-1")
    assert record.trace_id == answer.route.trace_id
    assert record.config_version == answer.route.config_version
    assert record.sample_rate == 1.0
    assert record.arrived.seconds > 1_700_000_000
    features = record.features
    assert features.task_type == classifier_pb2.TASK_TYPE_QA
    assert (features.complexity, features.confidence, features.source) == (0.3, 0.9, "model")
    assert (list(features.rules), list(features.languages), dict(features.measures)) == (
        ["r1"],
        ["en"],
        {"chars": 16.0},
    )
    assert features.small_right_probability == 0.7
    assert not features.HasField("large_right_probability")
    assert (features.prompt_token_count, features.max_token_count, features.message_count) == (11, 50, 1)
    decision = record.decision
    assert [(c.tier, c.probability) for c in decision.candidates] == [("l1", 1.0), ("l2", 0.0)]
    assert (decision.propensity, decision.policy, decision.pinned, decision.explored) == (1.0, "static", False, False)
    assert list(decision.reasons) == list(answer.route.reasons)
    result = record.result
    assert (result.outcome, result.tier, result.cache) == ("ok", "l1", "miss")
    assert (result.usage.prompt_token_count, result.usage.completion_token_count) == (7, 3)
    assert result.cost == pytest.approx((7 * 1.0 + 3 * 2.0) / 1e6)
    assert 0 < result.time_to_first_token.ToNanoseconds() <= result.total.ToNanoseconds()
    assert [f.finish_reason for f in result.finishes] == [answer_pb2.FINISH_REASON_STOP]
    (tried,) = record.tries
    assert (tried.tier, tried.outcome, tried.cost) == ("l1", "answered", result.cost)
    assert not record.HasField("text")


async def test_no_text_leaves_the_router_unless_the_configuration_says_so():
    async with running_router(outcomes=ON) as mesh:
        await mesh.generate(ask("my very secret question"))
        (record,) = await mesh.outcomes.wait_for(1)
    written = record.SerializeToString()
    assert b"secret question" not in written
    assert "你好".encode() not in written


async def test_texts_are_kept_where_the_configuration_says_so():
    async with running_router(outcomes={**ON, "keep_text": True}) as mesh:
        await mesh.generate(ask("What is a river?", sampling=chat_pb2.Sampling(choice_count=2)))
        mesh.engines["l1"].steps = answer_steps("l1 ", "says ", "你好", choices=2)
        await mesh.generate(ask("What is a lake?", sampling=chat_pb2.Sampling(choice_count=2)))
        records = await mesh.outcomes.wait_for(2)
    assert [m.content for m in records[1].text.messages] == ["What is a lake?"]
    assert list(records[1].text.answers) == ["l1 says 你好", "l1 says 你好"]


async def test_an_answer_from_the_cache_costs_nothing_and_has_no_decision():
    async with running_router(outcomes={**ON, "keep_text": True}) as mesh:
        await mesh.generate()
        await _set(mesh.cache.stored)
        await mesh.generate()
        records = await mesh.outcomes.wait_for(2)
    assert (records[1].result.outcome, records[1].result.cache, records[1].result.tier) == ("ok", "hit", "l1")
    assert not records[1].HasField("decision")
    assert not records[1].tries
    assert records[1].result.cost == 0
    assert list(records[1].text.answers) == ["l1 says 你好"]


async def _set(event):
    async with asyncio.timeout(60):
        await event.wait()


async def test_an_escalation_leaves_both_attempts_and_what_was_thought_of_them():
    calibration = {"l1": {"default": {"intercept": 0.0, "mean": 4.0}}}
    escalation = {"enabled": True, "calibrations": calibration, "hold_tokens": 2, "burst": 5}
    async with running_router(outcomes=ON, tiers=TIERS, escalation=escalation) as mesh:
        mesh.classifier.response = judged(complexity=0.3)
        mesh.classifier.response.confidence = 0.2
        for step in mesh.engines["l1"].steps:
            if step.HasField("delta"):
                step.delta.logprobs.add(token="x", logprob=-2.0)
        await mesh.generate()
        (record,) = await mesh.outcomes.wait_for(1)
    first, second = record.tries
    assert (first.tier, first.outcome, first.objection) == ("l1", "rejected", "low_confidence")
    assert first.confidence < 0.8
    assert first.logprobs.mean_logprob == pytest.approx(-2.0)
    assert (second.tier, second.outcome) == ("l2", "answered")
    assert record.result.escalated
    assert record.result.tier == "l2"
    assert record.result.cost == pytest.approx(first.cost + second.cost)
    assert first.cost > 0


async def test_a_failure_is_recorded_with_its_reason():
    async with running_router(outcomes=ON) as mesh:
        for engine in mesh.engines.values():
            engine.error = QueueFull("full")
        await mesh.generate()
        (record,) = await mesh.outcomes.wait_for(1)
    assert record.result.outcome == "QUEUE_FULL"
    assert {t.outcome for t in record.tries} == {"QUEUE_FULL"}
    assert record.result.tier == ""


async def test_a_caller_who_leaves_is_recorded_as_cancelled():
    async with running_router(outcomes=ON) as mesh:
        mesh.engines["l1"].hangs = True
        call = mesh.router.Generate(ask(), timeout=60, metadata=METADATA)
        await _set(mesh.engines["l1"].entered)
        call.cancel()
        (record,) = await mesh.outcomes.wait_for(1)
    assert record.result.outcome == "cancelled"


async def test_the_probability_of_an_explored_tier_is_recorded():
    balance = {"exploration": 1.0}
    async with running_router(outcomes=ON, tiers=TIERS, balance=balance) as mesh:
        await mesh.generate()
        (record,) = await mesh.outcomes.wait_for(1)
    assert record.decision.explored
    assert record.decision.propensity == 1.0
    assert [(c.tier, c.probability) for c in record.decision.candidates] == [("l2", 1.0), ("l1", 0.0)]


async def test_with_the_log_off_nothing_is_recorded_and_reports_are_refused():
    async with running_router() as mesh:
        await mesh.generate()
        with pytest.raises(FeatureOff, match=r"outcomes\.enabled"):
            await mesh.report(request_id="req-1", right=True)
        assert len(mesh.wired.outcomes) == 0
        assert not mesh.outcomes.entered.is_set()


async def test_only_the_share_asked_for_is_recorded_and_always_the_same_requests():
    async with running_router(outcomes={**ON, "sample": 0.5}) as mesh:
        for n in range(40):
            await mesh.generate(metadata=(("x-tiermesh-tenant", "acme"), ("x-request-id", f"r{n}")))
        await mesh.wired.outcomes.drain(60)
        first = {record.request_id for record in mesh.outcomes.records}
        assert 5 < len(first) < 35
        assert {record.sample_rate for record in mesh.outcomes.records} == {0.5}
        mesh.outcomes.records.clear()
        for n in range(40):
            await mesh.generate(metadata=(("x-tiermesh-tenant", "acme"), ("x-request-id", f"r{n}")))
        await mesh.wired.outcomes.drain(60)
    assert {record.request_id for record in mesh.outcomes.records} == first


async def test_a_log_that_hangs_holds_up_no_request_and_what_waited_leaves_as_one_batch():
    async with running_router(outcomes=ON) as mesh:
        mesh.outcomes.gate = asyncio.Event()
        await mesh.generate()
        await _set(mesh.outcomes.entered)
        for _ in range(5):
            answer = await mesh.generate()
            assert answer.kinds()[-1] == "done"
        assert len(mesh.wired.outcomes) == 6
        mesh.outcomes.gate.set()
        await mesh.wired.outcomes.drain(60)
        # Two calls, or one, where the first was given up before the gate was opened.
        assert sum(mesh.outcomes.batches) == 6
        assert len(mesh.outcomes.batches) <= 2
        assert mesh.counted("tiermesh.outcomes")[(("state", "filed"),)].value == 6


async def test_a_log_that_is_down_gets_the_newest_records_when_it_is_back():
    async with running_router(outcomes={**ON, "queue": 3}) as mesh:
        mesh.outcomes.error = Unavailable("down")
        for n in range(6):
            await mesh.generate(metadata=(("x-tiermesh-tenant", "acme"), ("x-request-id", f"r{n}")))
        assert len(mesh.wired.outcomes) == 3
        mesh.outcomes.error = None
        await mesh.wired.outcomes.drain(60)
        assert [record.request_id for record in mesh.outcomes.records] == ["r3", "r4", "r5"]
        assert mesh.counted("tiermesh.outcomes")[(("state", "dropped"),)].value == 3


async def test_records_that_are_refused_do_not_hold_up_the_next():
    async with running_router(outcomes=ON) as mesh:
        mesh.outcomes.error = InvalidRequest("no")
        await mesh.generate()
        await mesh.wired.outcomes.drain(60)
        mesh.outcomes.error = None
        await mesh.generate(metadata=(("x-tiermesh-tenant", "acme"), ("x-request-id", "next")))
        (record,) = await mesh.outcomes.wait_for(1)
        assert record.request_id == "next"


async def test_what_is_recorded_is_part_of_no_trace():
    async with running_router(outcomes=ON) as mesh:
        await mesh.generate()
        await mesh.outcomes.wait_for(1)
        assert not [span.name for span in mesh.tracing.finished if "RecordOutcomes" in span.name]


async def test_a_report_goes_on_with_the_tenant_of_the_key_whatever_it_says():
    async with running_router(outcomes=ON) as mesh:
        answer = await mesh.report(request_id="req-1", score=0.25, source=record_pb2.FEEDBACK_SOURCE_JUDGE, judge="j/1")
        assert answer.recorded
        await mesh.report(metadata=(("x-tiermesh-tenant", "other"),), request_id="req-1", right=False)
        first, second = mesh.outcomes.opinions
    assert (first.tenant, first.request_id, first.feedback.score, first.feedback.judge) == (
        "acme",
        "req-1",
        0.25,
        "j/1",
    )
    assert first.feedback.source == record_pb2.FEEDBACK_SOURCE_JUDGE
    assert (second.tenant, second.feedback.score, second.feedback.source) == (
        "other",
        0.0,
        record_pb2.FEEDBACK_SOURCE_USER,
    )


async def test_what_the_log_says_of_a_report_reaches_the_caller():
    async with running_router(outcomes=ON) as mesh:
        mesh.outcomes.sampled = False
        assert not (await mesh.report(request_id="req-1", right=True)).recorded
        mesh.outcomes.error = UnknownRequest("no such request")
        with pytest.raises(UnknownRequest):
            await mesh.report(request_id="req-1", right=True)


@pytest.mark.parametrize(
    ("fields", "at_fault"),
    [
        ({"right": True}, "request_id"),
        ({"request_id": "a b", "right": True}, "request_id"),
        ({"request_id": "x" * 129, "right": True}, "request_id"),
        ({"request_id": "r"}, "verdict"),
        ({"request_id": "r", "score": 1.5}, "score"),
        ({"request_id": "r", "score": float("nan")}, "score"),
        ({"request_id": "r", "right": True, "source": 99}, "source"),
        ({"request_id": "r", "right": True, "judge": "a judge"}, "judge"),
        ({"request_id": "r", "right": True, "judge": "j" * 65}, "judge"),
    ],
)
async def test_a_wrong_report_names_the_field(fields, at_fault):
    async with running_router(outcomes=ON) as mesh:
        with pytest.raises(InvalidRequest) as caught:
            await mesh.report(**fields)
        assert caught.value.field == at_fault
        assert not mesh.outcomes.opinions


async def test_a_report_without_a_tenant_is_refused():
    async with running_router(outcomes=ON) as mesh:
        with pytest.raises(Unauthenticated):
            await mesh.report(metadata=(), request_id="r", right=True)
