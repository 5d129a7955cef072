"""Both clients against a router that does what it is told."""

import asyncio
import contextlib
from concurrent.futures import CancelledError

import pytest
from harness.sdk import Kind, running_router
from harness.short_deadlines import until_one_arrives, until_one_is_in_time
from tiermesh.api.common.v1 import answer_pb2
from tiermesh.api.router.v1 import router_pb2
from tiermesh.client import RetryTokens
from tiermesh.shared.errors import (
    BudgetExhausted,
    DeadlineError,
    InvalidRequest,
    QueueFull,
    StreamBroken,
    Unavailable,
)
from tiermesh.shared.testing import ScriptedRouter, router_answer

both = pytest.mark.parametrize("kind", ["async", "sync"])
DELTA = router_pb2.GenerateResponse(delta=answer_pb2.Delta(text="half"))
LABEL = router_pb2.GenerateResponse(route=router_pb2.RouteLabel(tier="l1"))


@both
@pytest.mark.parametrize("prompt", ["Tell me about rivers", "介绍一下长江"], ids=["English", "Chinese"])
async def test_a_question_gets_text_label_and_usage(kind: Kind, prompt: str):
    async with running_router(ScriptedRouter(router_answer("one ", "条河"))) as served:
        answer = await served.ask(kind, prompt, options={"api_key": "k-1"}, model="tier:l1")
    assert (answer.text, answer.route.tier, answer.usage.completion_token_count) == ("one 条河", "l1", 2)
    (request,) = served.router.requests
    assert (request.model, request.messages[0].content) == ("tier:l1", prompt)
    assert served.router.metadata[0]["authorization"] == "Bearer k-1"


@both
async def test_without_a_deadline_the_lanes_own_is_sent(kind: Kind):
    async with running_router(ScriptedRouter(router_answer("a"))) as served:
        await served.ask(kind)
        await served.ask(kind, lane="simple")
        await served.ask(kind, batch=True)
    complex_s, simple_s, batch_s = served.router.remaining
    # gRPC rounds up to whole milliseconds, and may add one between two clocks.
    assert 60.1 < complex_s <= 90.003
    assert 0.0 < simple_s <= 60.003
    assert 500 < batch_s <= 600.003


@both
async def test_a_trace_is_continued(kind: Kind):
    parent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
    async with running_router(ScriptedRouter(router_answer("a"))) as served:
        await served.ask(kind, traceparent=parent)
        span = served.tracing.named("RouterService/Generate")
    assert format(span.context.trace_id, "032x") == parent.split("-")[1]


async def test_the_current_span_is_the_parent():
    async with running_router(ScriptedRouter(router_answer("a"))) as served:
        with served.tracing.tracer.start_as_current_span("caller") as caller:
            await served.ask("async")
        assert served.tracing.named("RouterService/Generate").parent.span_id == caller.get_span_context().span_id


@both
async def test_what_is_wrong_with_a_request_is_told_after_one_call(kind: Kind):
    async with running_router(ScriptedRouter([InvalidRequest("too warm", field="sampling.temperature")])) as served:
        with pytest.raises(InvalidRequest, match="too warm") as caught:
            await served.ask(kind)
    assert caught.value.field == "sampling.temperature"
    assert len(served.router.requests) == 1


@both
async def test_a_refusal_is_asked_again_after_its_retry_after(kind: Kind):
    router = ScriptedRouter([QueueFull("full", retry_after=1.5)], router_answer("a"))
    async with running_router(router) as served:
        answer = await served.ask(kind, options={"random": lambda: 0.0}, deadline_s=600)
    assert answer.text == "a"
    assert served.waits == [1.5]


@both
async def test_with_the_lanes_deadline_a_refusal_is_final_and_says_when_to_come_back(kind: Kind):
    async with running_router(ScriptedRouter([QueueFull("full", retry_after=1.5)])) as served:
        with pytest.raises(QueueFull) as caught:
            await served.ask(kind)
    assert caught.value.retry_after == 1.5
    assert (len(served.router.requests), served.waits) == (1, [])


@both
async def test_an_unavailable_mesh_is_tried_again_with_jitter(kind: Kind):
    router = ScriptedRouter([Unavailable("down")], [Unavailable("down")], router_answer("a"))
    async with running_router(router) as served:
        assert (await served.ask(kind, options={"random": lambda: 0.5})).text == "a"
    assert served.waits == pytest.approx([0.05, 0.1])


@both
async def test_a_hundred_requests_in_an_outage_make_at_most_1_2_calls_each(kind: Kind):
    async with running_router(ScriptedRouter([Unavailable("down")])) as served:
        if kind == "async":
            async with served.client() as client:
                outcomes = await asyncio.gather(*(client.ask("x") for _ in range(100)), return_exceptions=True)
        else:
            tokens = RetryTokens()
            asked = (served.ask("sync", options={"tokens": tokens}) for _ in range(100))
            outcomes = await asyncio.gather(*asked, return_exceptions=True)
    assert all(isinstance(outcome, Unavailable) for outcome in outcomes)
    assert len(served.router.requests) <= 120


async def test_a_mesh_that_is_not_there_is_unavailable():
    async with running_router(ScriptedRouter(router_answer("a"))) as served:
        pass
    with pytest.raises(Unavailable):
        await served.ask("async", deadline_s=60)


@both
async def test_after_the_first_event_nothing_is_tried_again(kind: Kind):
    async with running_router(ScriptedRouter([LABEL, Unavailable("gone")])) as served:
        with pytest.raises(Unavailable):
            await served.ask(kind)
    assert (len(served.router.requests), served.waits) == (1, [])


@both
async def test_a_stream_without_its_last_event_is_broken(kind: Kind):
    async with running_router(ScriptedRouter([LABEL, DELTA])) as served:
        with pytest.raises(StreamBroken):
            await served.ask(kind)
    assert len(served.router.requests) == 1


@both
async def test_an_empty_stream_is_broken_too(kind: Kind):
    async with running_router(ScriptedRouter([])) as served:
        with pytest.raises(StreamBroken):
            await served.ask(kind)


@both
async def test_a_failure_event_is_raised(kind: Kind):
    failure = router_pb2.GenerateResponse(failure=answer_pb2.Failure(reason="INFERENCE_TIMEOUT", message="late"))
    async with running_router(ScriptedRouter([LABEL, DELTA, failure])) as served:
        with pytest.raises(DeadlineError, match="late"):
            await served.ask(kind)


@both
async def test_a_mesh_that_never_answers_is_given_up_at_the_deadline(kind: Kind):
    async with running_router(ScriptedRouter([asyncio.Event()])) as served:

        async def ask(deadline_s: float) -> None:
            with pytest.raises(BudgetExhausted):
                await served.ask(kind, deadline_s=deadline_s)

        ended = await until_one_arrives(ask, served.router.requests)
        async with asyncio.timeout(60):
            await served.router.abandoned.wait()
    assert ended.deadline_s - 0.05 < ended.took_s < ended.deadline_s + 10
    assert len(served.router.requests) == 1


@both
async def test_a_stream_that_falls_silent_ends_at_the_deadline(kind: Kind):
    async with running_router(ScriptedRouter([LABEL, DELTA, asyncio.Event()])) as served:

        async def ask(deadline_s: float) -> None:
            with pytest.raises(DeadlineError):
                await served.ask(kind, deadline_s=deadline_s)

        ended = await until_one_arrives(ask, served.router.requests)
        assert ended.took_s < ended.deadline_s + 10


@both
async def test_an_answer_is_complete_though_its_status_never_comes(kind: Kind):
    async with running_router(ScriptedRouter([*router_answer("a"), asyncio.Event()])) as served:

        async def ask(deadline_s: float) -> str:
            # The synchronous client waits for the status until the deadline.
            with contextlib.suppress(DeadlineError):
                return (await served.ask(kind, deadline_s=deadline_s)).text
            return ""

        assert await until_one_is_in_time(ask, bool) == "a"


async def test_leaving_a_stream_cancels_the_call():
    async with running_router(ScriptedRouter([LABEL, DELTA, asyncio.Event()])) as served, served.client() as client:
        async with client.stream("x", deadline_s=60) as stream:
            async for text in stream.texts():
                assert text == "half"
                break
        async with asyncio.timeout(60):
            await served.router.abandoned.wait()
        assert stream.route.tier == "l1"
        with pytest.raises(StreamBroken):
            stream.answer()


async def test_cancelling_the_task_cancels_the_call_before_any_event():
    router = ScriptedRouter([asyncio.Event()])
    async with running_router(router) as served, served.client() as client:
        task = asyncio.create_task(client.ask("x", deadline_s=60))
        async with asyncio.timeout(60):
            await router.entered.wait()
            task.cancel()
            await router.abandoned.wait()
        with pytest.raises(asyncio.CancelledError):
            await task
    assert len(router.requests) == 1


async def test_leaving_a_synchronous_stream_cancels_the_call():
    async with running_router(ScriptedRouter([LABEL, DELTA, asyncio.Event()])) as served:

        def leave_early(client) -> str:
            with client.stream("x", deadline_s=60) as stream:
                return next(stream.texts())

        assert await served.in_thread(leave_early) == "half"
        async with asyncio.timeout(60):
            await served.router.abandoned.wait()


async def test_another_thread_can_cancel():
    router = ScriptedRouter([LABEL, asyncio.Event()])
    async with running_router(router) as served:
        with served.sync_client() as client:
            stream = client.stream("x", deadline_s=60)
            await asyncio.to_thread(next, stream)

            def read() -> str:
                # asyncio would take this exception for a cancellation of its own.
                try:
                    next(stream)
                except CancelledError:
                    return "cancelled"
                return "went on"

            waiting = asyncio.ensure_future(asyncio.to_thread(read))
            stream.cancel()
            async with asyncio.timeout(60):
                await router.abandoned.wait()
                assert await waiting == "cancelled"


@both
async def test_explain_is_retried_alike(kind: Kind):
    router = ScriptedRouter(router_answer("a"))
    router.explain_errors = [Unavailable("down")]
    async with running_router(router) as served:
        if kind == "async":
            async with served.client() as client:
                explained = await client.explain("why?")
        else:
            explained = await served.in_thread(lambda client: client.explain("why?"))
    assert list(explained.candidates) == ["l1"]
    assert len(served.waits) == 1
