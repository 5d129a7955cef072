"""Answers that are held back, judged, given up for a stronger tier's, or given all the same."""

import asyncio

import grpc
import pytest
from harness.router import METADATA, RAW, ask, running_router
from harness.short_deadlines import until_one_arrives
from tiermesh.api.classifier.v1 import classifier_pb2
from tiermesh.api.common.v1 import answer_pb2, chat_pb2
from tiermesh.api.engine.v1 import engine_pb2
from tiermesh.shared.errors import BudgetExhausted, QueueFull, Unavailable

STARTED = engine_pb2.GenerateResponse(started=engine_pb2.Started(model="scripted", prompt_token_count=7))
CALIBRATED = {"calibrations": {"l1": {"default": {"intercept": 4.0, "mean": 4.0}}}}
LOOP = ["no ", "no "] * 10


def pieces(words, logprob=-0.1, *, other=-2.5, choice=0):
    """Returns one delta a word, each with its log-probability."""
    deltas = []
    for word in words:
        token = answer_pb2.TokenLogprob(token=word, logprob=logprob, token_bytes=word.encode())
        token.top.add(token=word, logprob=logprob, token_bytes=word.encode())
        token.top.add(token="?", logprob=other, token_bytes=b"?")
        delta = answer_pb2.Delta(choice_index=choice, text=word, token_ids=[1], logprobs=[token])
        deltas.append(engine_pb2.GenerateResponse(delta=delta))
    return deltas


def answered(words, logprob=-0.1):
    done = engine_pb2.Done(
        finishes=[answer_pb2.ChoiceFinish(finish_reason=answer_pb2.FINISH_REASON_STOP)],
        usage=answer_pb2.Usage(prompt_token_count=7, completion_token_count=len(words)),
    )
    return [STARTED, *pieces(words, logprob), engine_pb2.GenerateResponse(done=done)]


def words(count):
    return [f"word{n} " for n in range(count)]


def unsure(mesh, confidence=0.4):
    mesh.classifier.response.confidence = confidence


@pytest.fixture
async def doubtful():
    async with running_router(escalation=CALIBRATED) as router:
        unsure(router)
        yield router


async def test_a_looping_answer_is_cancelled_and_escalated_however_sure_it_is(doubtful):
    # Never ends by itself: only a cancellation frees it.
    doubtful.engines["l1"].steps = [STARTED, *pieces(LOOP, -0.1), asyncio.Event()]
    answer = await doubtful.generate()
    assert answer.error is None
    assert answer.text == "l2 says 你好"
    assert answer.route.tier == "l2"
    assert list(answer.route.reasons) == ["rule:question", "repetition:l1"]
    first, second = answer.last.done.attempts
    assert (first.tier, first.outcome, first.objection) == ("l1", "rejected", "repetition")
    assert first.confidence < 0.2
    assert (second.tier, second.outcome) == ("l2", "answered")
    async with asyncio.timeout(60):
        await doubtful.engines["l1"].abandoned.wait()


async def test_the_rejected_call_is_cancelled_before_the_next_begins(doubtful):
    doubtful.engines["l1"].steps = [STARTED, *pieces(LOOP), asyncio.Event()]
    answer = await doubtful.generate()
    first, second = [hop for hop in answer.last.done.ledger.hops if hop.name == "engine"]
    end = first.start.ToNanoseconds() + first.total.ToNanoseconds()
    assert end <= second.start.ToNanoseconds()


@pytest.mark.parametrize("tokens", [["I'm", " sorry", ", but I ", "cannot ", "help."], [*"抱歉，我无法回答这个问题。"]])
async def test_a_refusal_escalates(doubtful, tokens):
    doubtful.engines["l1"].steps = answered(tokens)
    answer = await doubtful.generate()
    assert answer.route.tier == "l2"
    assert answer.route.reasons[-1] == "refusal:l1"


@pytest.mark.parametrize("told", ["Seek MEDICAL attention", "请立即就医"])
async def test_an_answer_with_a_safety_phrase_escalates(told):
    phrases = ["medical attention", "立即就医"]
    async with running_router(escalation={"safety_phrases": phrases}) as mesh:
        unsure(mesh)
        mesh.engines["l1"].steps = answered([told, " now."])
        answer = await mesh.generate()
        assert answer.route.tier == "l2"
        assert answer.route.reasons[-1] == "safety:l1"
        assert answer.last.done.attempts[0].objection == "safety"


async def test_a_flagged_prompt_begins_with_the_strongest_tier(doubtful):
    doubtful.classifier.response.confidence = 0.99
    doubtful.classifier.response.safety_flags.append("self_harm")
    answer = await doubtful.generate()
    assert answer.route.tier == "l2"
    assert list(answer.route.reasons) == ["rule:question", "safety:l1"]
    assert [attempt.tier for attempt in answer.last.done.attempts] == ["l2"]
    assert not doubtful.engines["l1"].requests
    assert doubtful.counted("tiermesh.escalations")[("tier", "l1"), ("why", "safety")].value == 1


async def test_a_flagged_prompt_falls_back_to_the_tier_that_was_passed_over(doubtful):
    doubtful.classifier.response.safety_flags.append("weapons")
    doubtful.engines["l2"].error = Unavailable("gone")
    doubtful.engines["l1"].steps = answered(words(20), -0.01)
    answer = await doubtful.generate()
    assert (answer.error, answer.route.tier) == (None, "l1")
    assert list(answer.route.reasons) == ["rule:question", "safety:l1", "unavailable:l2"]


async def test_a_shut_gate_keeps_a_flagged_prompt_where_it_is_and_its_answer_out_of_the_cache():
    async with running_router(escalation={"share": 0.0, "burst": 1}) as mesh:
        mesh.classifier.response.safety_flags.append("self_harm")
        assert (await mesh.generate(ask("one"))).route.tier == "l2"
        second = await mesh.generate(ask("two"))
        assert (second.route.tier, second.route.reasons[-1]) == ("l1", "escalation_skipped=quota")
        await mesh.wired.stores.drain()
        assert [store.answer.tier for store in mesh.cache.stores] == ["l2"]


@pytest.mark.parametrize(
    ("flag", "fields", "changes", "tier"),
    [
        ("prompt_injection", {}, {}, "l1"),
        ("self_harm", {"model": "tier:l1"}, {}, "l1"),
        ("self_harm", {}, {"enabled": False}, "l1"),
        ("prompt_injection", {}, {"safety_flags": ["prompt_injection"]}, "l2"),
    ],
)
async def test_flags_count_where_the_configuration_says_so_and_pins_stand(flag, fields, changes, tier):
    async with running_router(escalation=changes) as mesh:
        mesh.classifier.response.safety_flags.append(flag)
        assert (await mesh.generate(ask(**fields))).route.tier == tier


async def test_an_answer_from_rules_stands_whatever_the_prompt_holds(doubtful):
    doubtful.classifier.response.MergeFrom(
        classifier_pb2.ClassifyResponse(task_type=classifier_pb2.TASK_TYPE_FAQ, complexity=0.05)
    )
    doubtful.classifier.response.safety_flags.append("self_harm")
    assert (await doubtful.generate()).route.tier == "l0"


async def test_low_confidence_escalates_and_high_confidence_does_not(doubtful):
    doubtful.engines["l1"].steps = answered(words(20), -2.0)
    low = await doubtful.generate(ask("one"))
    assert low.route.tier == "l2"
    assert low.route.reasons[-1] == "low_confidence:l1"
    doubtful.engines["l1"].steps = answered(words(20), -0.01)
    high = await doubtful.generate(ask("two"))
    assert high.route.tier == "l1"
    assert high.text == "".join(words(20))
    assert high.last.done.attempts[0].confidence > 0.95
    assert not high.last.done.attempts[0].objection


async def test_usage_counts_every_attempt(doubtful):
    doubtful.engines["l1"].steps = [STARTED, *pieces(LOOP), asyncio.Event()]
    done = (await doubtful.generate()).last.done
    given_up, kept = done.attempts
    assert given_up.usage.completion_token_count >= 16
    assert given_up.usage.prompt_token_count == 7
    assert done.usage.completion_token_count == given_up.usage.completion_token_count + 3
    assert done.usage.prompt_token_count == 14
    assert kept.usage.completion_token_count == 3


async def test_streamed_usage_of_chat_completions_counts_every_attempt_before_done(doubtful):
    doubtful.engines["l1"].steps = [STARTED, *pieces(LOOP), asyncio.Event()]
    answer = await doubtful.chat(
        b'{"messages": [{"role": "user", "content": "How deep is a lake?"}], "stream": true,'
        b' "stream_options": {"include_usage": true}}'
    )
    *_, usage, done, rest = answer.body.split(b"\n\n")
    assert (done, rest) == (b"data: [DONE]", b"")
    assert b'"choices":[]' in usage
    assert b'"prompt_tokens":14' in usage
    assert answer.body.count(b'"usage":{') == 1


async def test_text_is_held_back_until_it_has_been_judged(doubtful):
    gate = asyncio.Event()
    steps = answered(words(20), -0.01)
    doubtful.engines["l1"].steps = [*steps[:16], gate, *steps[16:]]
    call = doubtful.router.Generate(ask(), timeout=60, metadata=METADATA)
    first = asyncio.ensure_future(call.read())
    async with asyncio.timeout(60):
        await doubtful.engines["l1"].entered.wait()
    done, _ = await asyncio.wait({first}, timeout=0.1)
    assert not done
    gate.set()
    assert (await first).route.tier == "l1"
    assert [(await call.read()).delta.text for _ in range(20)] == words(20)
    ledger = (await call.read()).done.ledger
    assert ledger.held.ToNanoseconds() > 0


async def test_a_short_answer_is_judged_at_its_end(doubtful):
    doubtful.engines["l1"].steps = answered(["Yes", "."], -0.01)
    assert (await doubtful.generate()).text == "Yes."
    doubtful.engines["l1"].steps = answered(["Yes", "."], -3.0)
    assert (await doubtful.generate(ask("again"))).route.tier == "l2"


async def test_nothing_is_held_back_where_the_classifier_is_sure(doubtful):
    unsure(doubtful, 0.95)
    doubtful.engines["l1"].steps = [STARTED, *pieces(["first "]), asyncio.Event()]
    call = doubtful.router.Generate(ask(), timeout=60, metadata=METADATA)
    await call.read()
    assert (await call.read()).delta.text == "first "
    call.cancel()
    (sent,) = doubtful.engines["l1"].requests
    assert not sent.sampling.logprobs


async def test_the_caller_sees_only_the_log_probabilities_it_asked_for(doubtful):
    doubtful.engines["l1"].steps = answered(words(20), -0.01)
    plain = await doubtful.generate(ask("one"))
    assert not any(m.delta.logprobs for m in plain.messages)
    assert doubtful.engines["l1"].requests[-1].sampling.top_logprob_count == 2
    one = ask("two", sampling=chat_pb2.Sampling(logprobs=True, top_logprob_count=1))
    asked = await doubtful.generate(one)
    tokens = [token for m in asked.messages for token in m.delta.logprobs]
    assert len(tokens) == 20
    assert {len(token.top) for token in tokens} == {1}
    await doubtful.wired.stores.drain()
    assert not any(delta.logprobs for delta in doubtful.cache.stores[0].answer.deltas)


async def test_uncalibrated_confidence_never_escalates_but_loops_do():
    async with running_router() as mesh:
        unsure(mesh)
        mesh.engines["l1"].steps = answered(words(20), -5.0)
        answer = await mesh.generate(ask("one"))
        assert answer.route.tier == "l1"
        assert not answer.last.done.attempts[0].HasField("confidence")
        mesh.engines["l1"].steps = answered(LOOP, -0.1)
        assert (await mesh.generate(ask("two"))).route.tier == "l2"


async def test_escalation_can_be_switched_off():
    async with running_router(escalation={**CALIBRATED, "enabled": False}) as mesh:
        unsure(mesh)
        mesh.engines["l1"].steps = answered(LOOP, -5.0)
        answer = await mesh.generate()
        assert answer.route.tier == "l1"
        assert not mesh.engines["l1"].requests[0].sampling.logprobs


async def test_pinned_answers_are_not_judged(doubtful):
    doubtful.engines["l1"].steps = answered(LOOP)
    answer = await doubtful.generate(ask(model="tier:l1"))
    assert answer.text == "".join(LOOP)
    assert not doubtful.engines["l1"].requests[0].sampling.logprobs


async def test_without_quota_the_answer_is_given_labelled_and_not_kept():
    async with running_router(escalation={**CALIBRATED, "share": 0.0, "burst": 1}) as mesh:
        unsure(mesh)
        mesh.engines["l1"].steps = answered(LOOP)
        assert (await mesh.generate(ask("one"))).route.tier == "l2"
        second = await mesh.generate(ask("two"))
        assert second.text == "".join(LOOP)
        assert second.route.tier == "l1"
        # Known to be shut from the beginning, so nothing was held back and the label had gone out.
        assert list(second.last.done.reasons) == ["escalation_skipped=quota"]
        assert second.last.done.attempts[0].objection == "repetition"
        assert second.last.done.ledger.held.ToNanoseconds() == 0
        await mesh.wired.stores.drain()
        assert [store.answer.tier for store in mesh.cache.stores] == ["l2"]


async def test_without_budget_for_the_next_tier_the_answer_is_given_and_labelled(doubtful):
    # The lane expects more than 20 s of a tier that has not answered yet.
    doubtful.engines["l1"].steps = answered(LOOP)
    answer = await doubtful.generate(timeout=15)
    assert answer.route.tier == "l1"
    assert list(answer.last.done.reasons) == ["escalation_skipped=budget"]
    assert not doubtful.engines["l2"].requests


async def test_a_gate_that_shuts_while_text_is_held_back_is_in_the_label():
    async with running_router(escalation={**CALIBRATED, "share": 0.0, "burst": 1}) as mesh:
        unsure(mesh)
        steps = answered(LOOP)
        gate = asyncio.Event()
        mesh.engines["l1"].steps = [*steps[:5], gate, *steps[5:]]
        running = asyncio.ensure_future(mesh.generate(ask("one")))
        async with asyncio.timeout(60):
            await mesh.engines["l1"].entered.wait()
        # While it is held back, another request takes the only escalation that there is.
        mesh.engines["l1"].steps = steps
        assert (await mesh.generate(ask("two"))).route.tier == "l2"
        gate.set()
        answer = await running
        assert answer.route.tier == "l1"
        assert answer.route.reasons[-1] == "escalation_skipped=quota"
        assert answer.text == "".join(LOOP)


async def test_an_unhealthy_stronger_tier_is_not_escalated_to(doubtful):
    # Something else has just found it gone.
    doubtful.engines["l2"].error = Unavailable("gone")
    await doubtful.generate(ask(model="tier:l2"))
    doubtful.engines["l1"].steps = answered(LOOP)
    answer = await doubtful.generate()
    assert answer.route.tier == "l1"
    assert list(answer.last.done.reasons) == ["escalation_skipped=health"]


async def test_no_capable_stronger_tier_is_a_shut_gate():
    tiers = [*RAW["tiers"][:2], {**RAW["tiers"][2], "excluded_task_types": ["qa"]}]
    async with running_router(escalation=CALIBRATED, tiers=tiers) as mesh:
        unsure(mesh)
        mesh.engines["l1"].steps = answered(LOOP)
        answer = await mesh.generate()
        assert list(answer.last.done.reasons) == ["escalation_skipped=capability"]


async def test_an_answer_that_breaks_off_while_held_back_moves_on_once_and_nothing_of_it_is_seen(doubtful):
    doubtful.engines["l1"].steps = [STARTED, *pieces(words(5)), Unavailable("connection lost")]
    answer = await doubtful.generate()
    assert answer.text == "l2 says 你好"
    assert answer.route.reasons[-1] == "unavailable:l1"
    assert [len(engine.requests) for engine in doubtful.engines.values()] == [0, 1, 1]


async def test_a_late_tier_is_left_for_a_stronger_one():
    lanes = {**RAW["lanes"], "simple": {"network_ms": 50, "queue_ms": 50, "model_ms": 100, "finish_ms": 100}}
    async with running_router(lanes=lanes) as mesh:
        mesh.engines["l1"].hangs = True
        answer = await mesh.generate(timeout=60)
        assert answer.error is None
        assert answer.route.tier == "l2"
        assert answer.route.reasons[-1] == "timeout:l1"
        assert [(a.tier, a.outcome) for a in answer.last.done.attempts] == [("l1", "timeout"), ("l2", "answered")]
        # A busy machine may use its time up on the way there.
        if mesh.engines["l1"].entered.is_set():
            async with asyncio.timeout(60):
                await mesh.engines["l1"].abandoned.wait()


async def test_a_tier_that_never_answers_ends_on_the_deadline_not_a_multiple_of_it():
    lanes = {**RAW["lanes"], "simple": {"network_ms": 50, "queue_ms": 50, "model_ms": 100, "finish_ms": 100}}
    async with running_router(lanes=lanes) as mesh:
        mesh.engines["l1"].hangs = mesh.engines["l2"].hangs = True
        engines = [mesh.engines["l1"], mesh.engines["l2"]]

        async def ask_for(seconds):
            for engine in engines:
                engine.requests.clear()
            answer = await mesh.generate(timeout=seconds)
            assert answer.status == grpc.StatusCode.DEADLINE_EXCEEDED
            assert all(len(engine.requests) <= 1 for engine in engines)

        ended = await until_one_arrives(ask_for, engines[1].requests, deadline_s=1.0)
        assert ended.took_s < ended.deadline_s + 10
        assert not mesh.engines["l0"].requests


async def test_work_that_one_tier_calls_hopeless_goes_to_one_that_is_predicted_to_make_it():
    lanes = {**RAW["lanes"], "simple": {"deadline_ms": 500}}
    async with running_router(lanes=lanes) as mesh:
        mesh.engines["l1"].error = BudgetExhausted("would take 40 s")
        answer = await mesh.generate(timeout=60)
        assert answer.route.tier == "l2"
        assert answer.route.reasons[-1] == "hopeless:l1"


@pytest.mark.parametrize("error", [QueueFull("busy"), Unavailable("gone"), BudgetExhausted("late")])
async def test_a_complete_answer_that_was_rejected_is_given_where_the_stronger_tier_fails(doubtful, error):
    doubtful.engines["l1"].steps = answered(["I cannot ", "answer that."])
    doubtful.engines["l2"].error = error
    answer = await doubtful.generate()
    assert answer.error is None
    assert answer.text == "I cannot answer that."
    assert answer.route.tier == "l1"
    assert answer.route.reasons[1] == "refusal:l1"
    assert [(a.tier, a.outcome) for a in answer.last.done.attempts] == [("l1", "rejected"), ("l2", error.reason)]
    assert answer.last.done.usage.completion_token_count == 2
    await doubtful.wired.stores.drain()
    assert not doubtful.cache.stores


async def test_no_tier_is_tried_twice_even_when_the_stronger_fails(doubtful):
    doubtful.engines["l1"].steps = [STARTED, *pieces(LOOP), asyncio.Event()]
    doubtful.engines["l2"].error = QueueFull("busy", retry_after=1.0)
    answer = await doubtful.generate()
    assert answer.status == grpc.StatusCode.RESOURCE_EXHAUSTED
    assert [len(engine.requests) for engine in doubtful.engines.values()] == [0, 1, 1]


async def test_a_caller_that_leaves_while_text_is_held_back_frees_the_engine(doubtful):
    doubtful.engines["l1"].steps = [STARTED, *pieces(words(5)), asyncio.Event()]
    call = doubtful.router.Generate(ask(), timeout=60, metadata=METADATA)
    reading = asyncio.ensure_future(call.read())
    async with asyncio.timeout(60):
        await doubtful.engines["l1"].entered.wait()
        call.cancel()
        await doubtful.engines["l1"].abandoned.wait()
    with pytest.raises(asyncio.CancelledError):
        await reading
    assert not doubtful.engines["l2"].requests


async def test_a_caller_that_leaves_during_an_escalation_frees_both_engines(doubtful):
    doubtful.engines["l1"].steps = [STARTED, *pieces(LOOP), asyncio.Event()]
    doubtful.engines["l2"].hangs = True
    call = doubtful.router.Generate(ask(), timeout=60, metadata=METADATA)
    reading = asyncio.ensure_future(call.read())
    async with asyncio.timeout(60):
        await doubtful.engines["l2"].entered.wait()
        call.cancel()
        await doubtful.engines["l1"].abandoned.wait()
        await doubtful.engines["l2"].abandoned.wait()
    with pytest.raises(asyncio.CancelledError):
        await reading


async def test_two_choices_are_judged_together_and_stay_whole(doubtful):
    steps = [STARTED]
    for one, other in zip(pieces(words(20), -0.01), pieces(["x"] * 20, -0.01, choice=1), strict=True):
        steps += [one, other]
    finishes = [answer_pb2.ChoiceFinish(choice_index=n, finish_reason=answer_pb2.FINISH_REASON_STOP) for n in (0, 1)]
    steps.append(engine_pb2.GenerateResponse(done=engine_pb2.Done(finishes=finishes)))
    doubtful.engines["l1"].steps = steps
    request = ask(sampling=chat_pb2.Sampling(choice_count=2))
    looped = await doubtful.generate(request)
    # The second choice is one letter over and over.
    assert looped.route.reasons[-1] == "repetition:l1"
    for n, piece in enumerate(steps[2:-1:2]):
        piece.delta.text = f"other{n} "
    doubtful.engines["l1"].steps = steps
    whole = await doubtful.generate(ask("again", sampling=chat_pb2.Sampling(choice_count=2)))
    texts = ["".join(m.delta.text for m in whole.messages if m.delta.choice_index == n) for n in (0, 1)]
    assert texts == ["".join(words(20)), "".join(f"other{n} " for n in range(20))]


async def test_the_span_tells_the_features_that_a_calibration_needs(doubtful):
    doubtful.engines["l1"].steps = answered(words(20), -0.01)
    await doubtful.generate()
    found = doubtful.tracing.named("RouterService/Generate").attributes
    assert found["tiermesh.judged.tier"] == "l1"
    assert found["tiermesh.judged.step"] == "accept"
    assert found["tiermesh.judged.mean_logprob"] == -0.01
    assert found["tiermesh.judged.mean_margin"] == 2.49
    assert found["tiermesh.judged.confidence"] > 0.95


async def test_content_parts_and_a_string_route_and_cache_alike(doubtful):
    one = await doubtful.chat(b'{"messages": [{"role": "user", "content": "What is a lake?"}]}')
    await doubtful.wired.stores.drain()
    parts = b'{"messages": [{"role": "user", "content": [{"type": "text", "text": "What is a lake?"}]}]}'
    other = await doubtful.chat(parts)
    assert (one.headers["x-tiermesh-cache"], other.headers["x-tiermesh-cache"]) == ("miss", "hit")
    assert one.headers["x-tiermesh-tier"] == other.headers["x-tiermesh-tier"]
