"""RouterService.Generate and Explain: routing, moving on, failing."""

import asyncio
import itertools

import grpc
import pytest
from harness.router import EARLY_END, METADATA, RAW, RESERVE_S, ask, running_router
from harness.short_deadlines import until_one_arrives, until_one_is_in_time
from tiermesh.api.classifier.v1 import classifier_pb2
from tiermesh.api.common.v1 import answer_pb2, chat_pb2
from tiermesh.api.engine.v1 import engine_pb2
from tiermesh.api.router.v1 import router_pb2
from tiermesh.shared.errors import (
    BudgetExhausted,
    ContextTooLong,
    DeviceFailed,
    InternalError,
    InvalidRequest,
    NotApplicable,
    OutOfMemory,
    QueueFull,
    StreamBroken,
    Unauthenticated,
    Unavailable,
    UnknownModel,
)
from tiermesh.shared.rpc import wire_timeout
from tiermesh.shared.testing import answer_steps

STARTED = engine_pb2.GenerateResponse(started=engine_pb2.Started(model="scripted"))


def piece(text):
    return engine_pb2.GenerateResponse(delta=answer_pb2.Delta(text=text))


def judge(mesh, task_type, complexity, **fields):
    response = classifier_pb2.ClassifyResponse(task_type=task_type, complexity=complexity, source="rules", rules=["r"])
    response.MergeFrom(classifier_pb2.ClassifyResponse(**fields))
    mesh.classifier.response = response


async def test_an_answer_is_a_label_then_pieces_then_done(mesh):
    answer = await mesh.generate(ask("河流是什么？"))
    assert answer.error is None
    assert answer.kinds() == ["route", "delta", "delta", "delta", "done"]
    assert answer.text == "l1 says 你好"
    route = answer.route
    assert (route.tier, route.model, route.request_id) == ("l1", "small", "req-1")
    assert route.cache_status == router_pb2.CACHE_STATUS_MISS
    assert route.task_type == classifier_pb2.TASK_TYPE_QA
    assert route.classifier_source == "rules"
    assert list(route.reasons) == ["rule:question"]
    assert [v.tier for v in route.verdicts] == ["l0", "l1", "l2"]
    assert route.config_version == mesh.settings.current.version
    assert len(route.trace_id) == 32
    done = answer.last.done
    assert [(a.tier, a.outcome) for a in done.attempts] == [("l1", "answered")]
    assert done.usage.completion_token_count == 3
    assert done.finishes[0].finish_reason == answer_pb2.FINISH_REASON_STOP
    assert 0 < done.time_to_first_token.ToNanoseconds() <= done.total.ToNanoseconds()


async def test_the_label_is_also_in_the_headers(mesh):
    headers = (await mesh.generate()).headers
    wanted = {
        "request-id": "req-1",
        "tier": "l1",
        "model": "small",
        "cache": "miss",
        "task-type": "qa",
        "reasons": "rule:question",
        "complexity": "0.30",
        "config-version": mesh.settings.current.version,
    }
    assert {name: headers[f"x-tiermesh-{name}"] for name in wanted} == wanted
    assert len(headers["x-tiermesh-trace-id"]) == 32
    assert "x-tiermesh-simulated" not in headers


async def test_simulated_text_says_so(mesh):
    steps = answer_steps("made up")
    steps[0] = engine_pb2.GenerateResponse(started=engine_pb2.Started(model="m", simulated=True))
    mesh.engines["l1"].steps = steps
    answer = await mesh.generate()
    assert answer.route.simulated
    assert answer.headers["x-tiermesh-simulated"] == "true"


async def test_the_label_is_sent_with_the_first_text_not_with_the_last(mesh):
    gate = asyncio.Event()
    mesh.engines["l1"].steps = [STARTED, piece("soon "), gate, *answer_steps("late")[1:]]
    call = mesh.router.Generate(ask(), timeout=60, metadata=METADATA)
    assert (await call.read()).route.tier == "l1"
    assert (await call.read()).delta.text == "soon "
    gate.set()
    assert [(await call.read()).WhichOneof("event") for _ in range(2)] == ["delta", "done"]


async def test_the_engine_gets_the_request_and_limits_of_its_tier(mesh):
    request = ask("Hi", sampling=chat_pb2.Sampling(temperature=0.0, max_tokens=5000, stop=["x"]))
    request.priority = chat_pb2.PRIORITY_BATCH
    await mesh.generate(request)
    (sent,) = mesh.engines["l1"].requests
    assert sent.request_id == "req-1/l1"
    assert sent.tenant == "acme"
    assert list(sent.messages) == list(request.messages)
    assert sent.priority == chat_pb2.PRIORITY_BATCH
    assert sent.sampling.max_tokens == 256
    assert sent.sampling.HasField("temperature")
    assert not sent.sampling.HasField("top_p")


@pytest.mark.parametrize(
    ("task_type", "complexity", "tier"),
    [("GREETING", 0.0, "l0"), ("QA", 0.3, "l1"), ("QA", 0.8, "l2"), ("CODE", 0.2, "l2")],
)
async def test_the_cheapest_tier_that_is_good_enough_answers(mesh, task_type, complexity, tier):
    judge(mesh, classifier_pb2.TaskType.Value(f"TASK_TYPE_{task_type}"), complexity)
    answer = await mesh.generate()
    assert answer.route.tier == tier
    assert answer.text.startswith(tier)


@pytest.mark.parametrize(("model", "tier"), [("tier:l0", "l0"), ("tier:l2", "l2"), ("large", "l2"), ("small", "l1")])
async def test_pins_go_where_they_say(mesh, model, tier):
    answer = await mesh.generate(ask(model=model))
    assert answer.route.tier == tier
    assert list(answer.route.reasons) == ["pinned"]


async def test_unknown_models_are_refused_before_anything_is_called(mesh):
    answer = await mesh.generate(ask(model="tier:l9"))
    assert isinstance(answer.error, UnknownModel)
    assert answer.error.field == "model"
    assert "auto, tier:l0, tier:l1, tier:l2, rules, small, large" in answer.error.message
    assert answer.messages == []
    assert not mesh.cache.lookups
    assert not mesh.classifier.requests


async def test_a_rules_tier_that_declines_hands_on(mesh):
    judge(mesh, classifier_pb2.TASK_TYPE_GREETING, 0.0)
    mesh.engines["l0"].error = NotApplicable("no rule matches")
    answer = await mesh.generate()
    assert answer.error is None
    assert answer.route.tier == "l1"
    assert list(answer.route.reasons) == ["rule:r", "declined:l0"]
    assert [(a.tier, a.outcome) for a in answer.last.done.attempts] == [("l0", "NOT_APPLICABLE"), ("l1", "answered")]


@pytest.mark.parametrize(
    ("error", "reason"),
    [
        (Unavailable("gone"), "unavailable:l1"),
        (DeviceFailed("broken"), "unavailable:l1"),
        (OutOfMemory("full"), "unavailable:l1"),
        (QueueFull("busy", retry_after=1), "queue_full:l1"),
        (ContextTooLong("by 3 tokens"), "context_too_long:l1"),
    ],
)
async def test_failures_of_one_tier_before_it_starts_move_to_the_next(mesh, error, reason):
    mesh.engines["l1"].error = error
    answer = await mesh.generate()
    assert answer.route.tier == "l2"
    assert answer.route.reasons[-1] == reason
    assert answer.text == "l2 says 你好"


async def test_a_tier_whose_process_is_gone_is_unavailable(mesh):
    await mesh.servers["engine-l1"].drain(0)
    answer = await mesh.generate()
    assert answer.route.tier == "l2"
    assert answer.route.reasons[-1] == "unavailable:l1"


async def test_a_failure_event_before_the_start_moves_on_too(mesh):
    failure = answer_pb2.Failure(reason="QUEUE_FULL", message="busy")
    mesh.engines["l1"].steps = [engine_pb2.GenerateResponse(failure=failure), QueueFull("busy")]
    assert (await mesh.generate()).route.tier == "l2"


async def test_a_tier_that_has_just_failed_is_not_tried_first_again(mesh):
    mesh.engines["l1"].error = Unavailable("gone")
    await mesh.generate(ask("one"))
    second = await mesh.generate(ask("two"))
    assert second.route.tier == "l2"
    assert list(second.route.reasons) == ["rule:question", "recently_unavailable:l1"]
    assert len(mesh.engines["l1"].requests) == 1


async def test_the_weaker_tier_answers_when_the_stronger_is_gone(mesh):
    judge(mesh, classifier_pb2.TASK_TYPE_QA, 0.8)
    mesh.engines["l2"].error = Unavailable("gone")
    answer = await mesh.generate()
    assert answer.route.tier == "l1"
    assert list(answer.route.reasons) == ["rule:r", "unavailable:l2", "last_resort"]


@pytest.mark.parametrize("error", [Unavailable("gone"), QueueFull("busy", retry_after=2.0), NotApplicable("no")])
async def test_pinned_requests_never_move(mesh, error):
    mesh.engines["l1"].error = error
    answer = await mesh.generate(ask(model="tier:l1"))
    assert type(answer.error) is type(error)
    assert answer.error.message.startswith("tier l1: ")
    assert answer.error.retry_after == error.retry_after
    assert not mesh.engines["l2"].requests


@pytest.mark.parametrize("error", [InternalError("bug"), InvalidRequest("stop[0]: bad")])
async def test_other_failures_never_move(mesh, error):
    mesh.engines["l1"].error = error
    answer = await mesh.generate()
    assert type(answer.error) is type(error)
    assert not mesh.engines["l2"].requests


async def test_when_all_are_gone_the_error_tells_of_each_and_no_tier_was_tried_twice(mesh):
    for engine in mesh.engines.values():
        engine.error = Unavailable("gone")
    answer = await mesh.generate()
    assert answer.error.reason == "NO_ELIGIBLE_TIER"
    assert "tier l1: gone; tier l2: gone" in answer.error.message
    assert [len(e.requests) for e in mesh.engines.values()] == [0, 1, 1]


async def test_a_full_queue_counts_more_than_an_absent_tier(mesh):
    mesh.engines["l1"].error = QueueFull("busy", retry_after=3.0)
    mesh.engines["l2"].error = Unavailable("gone")
    answer = await mesh.generate()
    assert answer.status == grpc.StatusCode.RESOURCE_EXHAUSTED
    assert answer.error.retry_after == 3.0


async def test_an_answer_that_breaks_off_is_a_failure_and_is_never_continued_elsewhere(mesh):
    mesh.engines["l1"].steps = [STARTED, piece("half"), Unavailable("connection lost")]
    answer = await mesh.generate()
    assert answer.kinds() == ["route", "delta", "failure"]
    assert answer.last.failure.reason == "STREAM_BROKEN"
    assert isinstance(answer.error, StreamBroken)
    assert answer.error.message == answer.last.failure.message
    assert not mesh.engines["l2"].requests
    assert not mesh.cache.stores


async def test_a_process_that_dies_in_mid_answer_breaks_it_off(mesh):
    mesh.engines["l1"].steps = [STARTED, piece("half"), asyncio.Event()]
    call = mesh.router.Generate(ask(), timeout=60, metadata=METADATA)
    await call.read()
    assert (await call.read()).delta.text == "half"
    await mesh.servers["engine-l1"].drain(0)
    assert (await call.read()).failure.reason == "STREAM_BROKEN"
    assert await call.code() == grpc.StatusCode.INTERNAL


async def test_a_stream_without_a_terminal_event_is_a_failure(mesh):
    mesh.engines["l1"].steps = [STARTED, piece("half")]
    answer = await mesh.generate()
    assert answer.last.failure.reason == "STREAM_BROKEN"
    assert isinstance(answer.error, StreamBroken)


@pytest.mark.parametrize("steps", [[], [STARTED], [STARTED, Unavailable("connection lost")]])
async def test_a_tier_that_dies_before_its_first_text_is_followed_by_the_next_exactly_once(mesh, steps):
    mesh.engines["l1"].steps = steps
    answer = await mesh.generate()
    assert answer.text == "l2 says 你好"
    assert answer.route.tier == "l2"
    assert answer.route.reasons[-1] in {"broken_off:l1", "unavailable:l1"}
    assert [len(engine.requests) for engine in mesh.engines.values()] == [0, 1, 1]


async def test_a_pinned_stream_without_any_event_is_a_failure(mesh):
    mesh.engines["l1"].steps = []
    answer = await mesh.generate(ask(model="tier:l1"))
    assert answer.messages == []
    assert isinstance(answer.error, StreamBroken)
    assert not mesh.engines["l2"].requests


async def test_an_engines_own_failure_keeps_its_reason(mesh):
    failure = answer_pb2.Failure(reason="DEVICE_FAILED", message="card fell off")
    mesh.engines["l1"].steps = [STARTED, piece("half"), engine_pb2.GenerateResponse(failure=failure), DeviceFailed("x")]
    answer = await mesh.generate()
    assert answer.last.failure.reason == "DEVICE_FAILED"
    assert "tier l1: card fell off" in answer.last.failure.message
    assert isinstance(answer.error, DeviceFailed)


async def test_a_caller_that_leaves_frees_the_engine(mesh):
    mesh.engines["l1"].steps = [STARTED, piece("half"), asyncio.Event()]
    call = mesh.router.Generate(ask(), timeout=60, metadata=METADATA)
    await call.read()
    await call.read()
    call.cancel()
    async with asyncio.timeout(60):
        await mesh.engines["l1"].abandoned.wait()


async def test_a_caller_that_leaves_before_the_start_frees_the_engine_and_the_next_is_not_tried(mesh):
    mesh.engines["l1"].hangs = True
    call = mesh.router.Generate(ask(), timeout=60, metadata=METADATA)
    reading = asyncio.ensure_future(call.read())
    await mesh.engines["l1"].entered.wait()
    call.cancel()
    async with asyncio.timeout(60):
        await mesh.engines["l1"].abandoned.wait()
    with pytest.raises(asyncio.CancelledError):
        await reading
    assert not mesh.engines["l2"].requests


async def test_an_engine_that_has_finished_is_not_cancelled(mesh):
    await mesh.generate()
    assert not mesh.engines["l1"].abandoned.is_set()


async def _cut_short(mesh):
    """Asks with a short deadline, which passes while the engine has the request."""
    return (await until_one_arrives(lambda s: mesh.generate(timeout=s), mesh.engines["l1"].requests)).result


async def test_the_deadline_ends_a_hanging_engine_with_a_terminal_event_and_nothing_else_is_tried():
    async with running_router(deadlines=EARLY_END) as mesh:
        mesh.engines["l1"].steps = [STARTED, piece("half"), asyncio.Event()]
        answer = await until_one_is_in_time(
            lambda s: mesh.generate(timeout=s), lambda answer: answer.text, reserve_s=RESERVE_S
        )
        assert answer.kinds() == ["route", "delta", "failure"]
        assert answer.last.failure.reason in {"BUDGET_EXHAUSTED", "INFERENCE_TIMEOUT"}
        assert answer.status == grpc.StatusCode.DEADLINE_EXCEEDED
        async with asyncio.timeout(60):
            await mesh.engines["l1"].abandoned.wait()
        assert not mesh.engines["l2"].requests


async def test_the_deadline_before_the_start_is_a_status(mesh):
    mesh.engines["l1"].hangs = True
    answer = await _cut_short(mesh)
    assert answer.messages == []
    assert isinstance(answer.error, BudgetExhausted)
    assert not mesh.engines["l2"].requests


async def test_too_short_a_deadline_never_reaches_an_engine():
    async with running_router(deadlines={**RAW["deadlines"], "reserve_ms": 10_000}) as mesh:
        answer = await mesh.generate(timeout=9)
        assert isinstance(answer.error, BudgetExhausted)
        assert not mesh.engines["l1"].requests


async def test_without_a_deadline_the_default_counts():
    async with running_router(deadlines={**RAW["deadlines"], "default_ms": 300}) as mesh:
        mesh.engines["l1"].hangs = True
        answer = await mesh.generate(timeout=None)
        assert answer.status == grpc.StatusCode.DEADLINE_EXCEEDED
        span = mesh.tracing.named("RouterService/Generate")
        assert span.attributes["tiermesh.budget.in_ms"] <= 300


async def test_without_a_classifier_length_decides(mesh):
    mesh.classifier.error = Unavailable("gone")
    answer = await mesh.generate()
    assert answer.route.tier == "l1"
    assert answer.route.classifier_source == "unavailable"
    assert list(answer.route.reasons) == ["classifier:unavailable"]
    long = await mesh.generate(ask("word " * 1500))
    assert long.route.tier == "l2"


async def test_a_classifier_that_hangs_is_given_its_cap_and_abandoned():
    async with running_router(deadlines={**RAW["deadlines"], "classifier_ms": 50}) as mesh:
        mesh.classifier.hangs = True
        # A busy machine may use the cap up before the request is at the classifier.
        for number in itertools.takewhile(lambda _: not mesh.classifier.entered.is_set(), itertools.count()):
            answer = await mesh.generate(ask(f"question {number}"))
            assert answer.route.classifier_source == "unavailable"
            assert answer.route.tier == "l1"
        async with asyncio.timeout(60):
            await mesh.classifier.abandoned.wait()


async def test_a_prompt_that_no_tier_holds_is_refused_with_the_sizes(mesh):
    judge(mesh, classifier_pb2.TASK_TYPE_LONG_CONTEXT, 0.9, estimated_prompt_token_count=20_000)
    answer = await mesh.generate()
    assert isinstance(answer.error, ContextTooLong)
    assert "8192" in answer.error.message
    assert answer.error.field == "messages"


async def test_a_prompt_that_may_fit_is_counted_by_the_engine(mesh):
    judge(mesh, classifier_pb2.TASK_TYPE_LONG_CONTEXT, 0.9, estimated_prompt_token_count=10_000)
    mesh.engines["l2"].error = ContextTooLong("8300 tokens exceed 8192", field="messages")
    answer = await mesh.generate()
    assert isinstance(answer.error, ContextTooLong)
    assert answer.error.message == "tier l2: 8300 tokens exceed 8192"
    mesh.engines["l2"].error = None
    assert (await mesh.generate()).route.tier == "l2"


async def test_calls_without_a_tenant_are_refused(mesh):
    answer = await mesh.generate(metadata=(("x-request-id", "1"),))
    assert isinstance(answer.error, Unauthenticated)


async def test_a_request_id_is_made_where_none_or_a_bad_one_came(mesh):
    tenant = METADATA[0]
    one = (await mesh.generate(metadata=(tenant,))).route.request_id
    two = (await mesh.generate(metadata=(tenant, ("x-request-id", "a b;c")))).route.request_id
    assert len({one, two, "a b;c"}) == 3
    assert all(len(made) == 36 for made in (one, two))


@pytest.mark.parametrize(
    ("request_", "field"),
    [
        (router_pb2.GenerateRequest(), "messages"),
        (router_pb2.GenerateRequest(messages=[chat_pb2.Message(content="x")]), "messages[0].role"),
        (router_pb2.GenerateRequest(messages=[chat_pb2.Message(role=chat_pb2.ROLE_USER)]), "messages[0].content"),
        (router_pb2.GenerateRequest(messages=[chat_pb2.Message(role=9, content="x")]), "messages[0].role"),
        (
            router_pb2.GenerateRequest(messages=[chat_pb2.Message(role=chat_pb2.ROLE_TOOL, content="x")]),
            "messages[0].tool_call_id",
        ),
        (
            router_pb2.GenerateRequest(messages=[chat_pb2.Message(role=chat_pb2.ROLE_ASSISTANT, content="x")]),
            "messages[0].role",
        ),
        (ask(sampling=chat_pb2.Sampling(temperature=2.1)), "sampling.temperature"),
        (ask(sampling=chat_pb2.Sampling(temperature=float("nan"))), "sampling.temperature"),
        (ask(sampling=chat_pb2.Sampling(top_p=0.0)), "sampling.top_p"),
        (ask(sampling=chat_pb2.Sampling(max_tokens=0)), "sampling.max_tokens"),
        (ask(sampling=chat_pb2.Sampling(choice_count=9)), "sampling.choice_count"),
        (ask(sampling=chat_pb2.Sampling(stop=["a", ""])), "sampling.stop[1]"),
        (ask(sampling=chat_pb2.Sampling(stop=["a"] * 5)), "sampling.stop"),
        (ask(sampling=chat_pb2.Sampling(top_logprob_count=2)), "sampling.top_logprob_count"),
        (ask(sampling=chat_pb2.Sampling(logprobs=True, top_logprob_count=21)), "sampling.top_logprob_count"),
        (ask(sampling=chat_pb2.Sampling(presence_penalty=-3)), "sampling.presence_penalty"),
        (ask(cache_mode=77), "cache_mode"),
        (ask(priority=77), "priority"),
        (ask(model="m" * 300), "model"),
    ],
)
async def test_bad_requests_are_refused_by_field_and_the_next_one_works(mesh, request_, field):
    answer = await mesh.generate(request_)
    assert isinstance(answer.error, InvalidRequest)
    assert answer.error.field == field
    assert answer.error.message.startswith(field)
    assert answer.trailers.get("x-openai-error") is None
    assert (await mesh.generate()).error is None


async def test_a_piece_of_a_choice_nobody_asked_for_breaks_the_answer_off(mesh):
    # A choice that was not asked for is beyond what an engine may send.
    wrong = engine_pb2.GenerateResponse(delta=answer_pb2.Delta(choice_index=7, text="secret"))
    mesh.engines["l1"].steps = [STARTED, piece("good"), wrong, *answer_steps("x")[1:]]
    answer = await mesh.generate()
    assert answer.last.failure.reason == "STREAM_BROKEN"
    assert "secret" not in answer.last.failure.message
    mesh.engines["l1"].steps = answer_steps("fine")
    assert (await mesh.generate()).text == "fine"


async def test_an_explanation_of_nothing_says_how_it_is_asked_for(mesh):
    with pytest.raises(grpc.aio.AioRpcError) as refused:
        await mesh.router.Explain(router_pb2.ExplainRequest(), timeout=60, metadata=METADATA)
    assert refused.value.code() is grpc.StatusCode.INVALID_ARGUMENT
    assert "request: is required" in refused.value.details()


async def test_explain_decides_like_generate_and_runs_nothing(mesh):
    explained = await mesh.explain()
    generated = await mesh.generate()
    assert explained.route.tier == generated.route.tier == "l1"
    assert list(explained.route.verdicts) == list(generated.route.verdicts)
    assert list(explained.route.reasons) == list(generated.route.reasons)
    assert list(explained.candidates) == ["l1", "l2"]
    assert explained.classification.rules == ["question"]
    assert explained.fingerprint == mesh.cache.lookups[0].fingerprint.hex()
    assert [len(e.requests) for e in mesh.engines.values()] == [0, 1, 0]


async def test_explain_says_what_the_cache_has(mesh):
    assert (await mesh.explain()).route.cache_status == router_pb2.CACHE_STATUS_MISS
    await mesh.generate()
    await mesh.wired.stores.drain()
    assert (await mesh.explain()).route.cache_status == router_pb2.CACHE_STATUS_HIT
    assert (await mesh.explain(ask(cache_mode=router_pb2.CACHE_MODE_OFF))).route.cache_status == (
        router_pb2.CACHE_STATUS_BYPASS
    )


async def test_expected_gain_decides_and_is_told_in_explain_label_and_trace(mesh):
    judge(
        mesh,
        classifier_pb2.TASK_TYPE_QA,
        0.2,
        small_right_probability=0.3,
        large_right_probability=0.9,
        right_probability_basis="outcomes",
    )
    explained, generated = await mesh.explain(), await mesh.generate()
    assert explained.route.tier == generated.route.tier == "l2"
    assert list(generated.route.reasons) == ["rule:r", "gain:l2"]
    assert list(explained.route.verdicts) == list(generated.route.verdicts)
    l0, l1, l2 = generated.route.verdicts
    assert not l0.HasField("worth")
    assert (l1.reason, l1.right_probability) == ("less_gain", pytest.approx(0.3))
    assert (l2.reason, l2.right_probability, l2.worth) == ("chosen", pytest.approx(0.9), pytest.approx(0.9))
    told = mesh.tracing.named("RouterService/Generate").attributes
    assert told["tiermesh.gain.tiers"] == ("l1", "l2")
    assert told["tiermesh.gain.right"] == (0.3, 0.9)
    assert mesh.classifier.requests[0].want_right_probabilities
    assert mesh.classifier.requests[0].only_measured_probabilities


async def test_judgements_of_the_training_prompts_do_not_decide_unless_wanted(mesh):
    judge(
        mesh,
        classifier_pb2.TASK_TYPE_QA,
        0.2,
        small_right_probability=0.3,
        large_right_probability=0.9,
        right_probability_basis="judgement",
    )
    assert (await mesh.generate()).route.tier == "l1"


async def test_explain_tells_why_nothing_fits_instead_of_failing(mesh):
    judge(mesh, classifier_pb2.TASK_TYPE_QA, 0.9, estimated_prompt_token_count=20_000)
    explained = await mesh.explain()
    assert list(explained.candidates) == []
    assert explained.route.tier == ""
    assert explained.route.reasons[-1] == "context_too_long"
    assert {v.tier: v.reason for v in explained.route.verdicts} == {
        "l0": "task_type_not_served",
        "l1": "context_too_long",
        "l2": "context_too_long",
    }
    with pytest.raises(grpc.aio.AioRpcError) as caught:
        await mesh.explain(ask(model="nonesuch"))
    assert caught.value.code() == grpc.StatusCode.NOT_FOUND


async def test_behind_envoy_the_router_keeps_time_back_for_its_last_event(mesh):
    await mesh.generate(timeout=wire_timeout(20), metadata=(*METADATA, ("x-tiermesh-deadline", "sent")))
    kept = mesh.tracing.named("RouterService/Generate").attributes["tiermesh.budget.in_ms"]
    # Envoy's timer is 50 ms before the deadline that arrives, and the end is due as much before that.
    assert kept <= 19_900


async def test_the_server_span_tells_the_whole_story(mesh):
    mesh.engines["l1"].error = QueueFull("busy")
    await mesh.generate()
    span = mesh.tracing.named("RouterService/Generate")
    found = dict(span.attributes)
    wanted = {
        "tiermesh.tenant": "acme",
        "tiermesh.tier": "l2",
        "tiermesh.model": "large",
        "tiermesh.cache": "miss",
        "tiermesh.task_type": "qa",
        "tiermesh.complexity": 0.3,
        "tiermesh.reasons": ("rule:question", "queue_full:l1"),
        "tiermesh.attempts": ("l1=QUEUE_FULL", "l2=answered"),
        "tiermesh.classifier.source": "rules",
        "tiermesh.classifier.rules": ("question",),
        "tiermesh.prompt_tokens": 7,
        "tiermesh.completion_tokens": 3,
    }
    assert {name: found.get(name) for name in wanted} == wanted
    assert found["tiermesh.ttft_ms"] > 0
    trace_id = span.context.trace_id
    assert {s.context.trace_id for s in mesh.tracing.finished if s.name != "RouterService/Generate"} == {trace_id}
