"""Failures that other gateways are known for, each as callers would meet it."""

import asyncio
import json

import grpc
import pytest
from harness.router import EARLY_END, METADATA, RESERVE_S, ask, running_router
from harness.short_deadlines import until_one_arrives, until_one_is_in_time
from tiermesh.api.common.v1 import answer_pb2
from tiermesh.api.engine.v1 import engine_pb2
from tiermesh.shared.errors import InvalidRequest, QueueFull, Unavailable
from tiermesh.shared.testing import answer_steps

STARTED = engine_pb2.GenerateResponse(started=engine_pb2.Started(model="scripted"))


def spoken(count):
    return [engine_pb2.GenerateResponse(delta=answer_pb2.Delta(text=f"token{n} ", token_ids=[n])) for n in range(count)]


def chat(**fields):
    return json.dumps({"messages": [{"role": "user", "content": "What is a river?"}], **fields}).encode()


def chunks(answer):
    """Returns the JSON of every event, and whether the stream said that it was done."""
    events = [event.removeprefix(b"data: ") for event in answer.body.split(b"\n\n") if event]
    return [json.loads(event) for event in events if event != b"[DONE]"], b"[DONE]" in events


@pytest.mark.parametrize("last", [Unavailable("connection lost"), None])
async def test_a_tier_that_streams_40_of_60_tokens_and_closes_ends_in_an_error_and_nothing_else(mesh, last):
    mesh.engines["l1"].steps = [STARTED, *spoken(40), *([last] if last else [])]
    answer = await mesh.chat(chat(stream=True))
    seen, done = chunks(answer)
    assert not done
    assert "error" in seen[-1]
    assert not [c for chunk in seen[:-1] for c in chunk["choices"] if c["finish_reason"]]
    text = "".join(c["delta"].get("content") or "" for chunk in seen[:-1] for c in chunk["choices"])
    assert text == "".join(f"token{n} " for n in range(40))
    assert not mesh.engines["l2"].requests
    assert answer.error.reason == "STREAM_BROKEN"


async def test_a_tier_that_goes_silent_after_20_tokens_ends_in_an_error_on_the_deadline():
    async with running_router(deadlines=EARLY_END) as mesh:
        mesh.engines["l1"].steps = [STARTED, *spoken(20), asyncio.Event()]
        answer = await until_one_is_in_time(
            lambda s: mesh.chat(chat(stream=True), timeout=s),
            lambda answer: b"token19" in answer.body,
            reserve_s=RESERVE_S,
        )
        seen, done = chunks(answer)
        assert not done
        # Said before the caller's own timer ended the call.
        assert seen[-1]["error"]["code"] in {"BUDGET_EXHAUSTED", "INFERENCE_TIMEOUT"}
        async with asyncio.timeout(60):
            await mesh.engines["l1"].abandoned.wait()
        assert not mesh.engines["l2"].requests


async def test_the_same_without_streaming_is_a_plain_error(mesh):
    mesh.engines["l1"].steps = [STARTED, *spoken(40), Unavailable("connection lost")]
    answer = await mesh.chat(chat())
    assert not answer.messages
    assert answer.error.reason == "STREAM_BROKEN"
    assert json.loads(answer.trailers["x-openai-error"])["error"]["code"] == "STREAM_BROKEN"


@pytest.mark.parametrize("stream", [True, False])
@pytest.mark.parametrize("steps", [[asyncio.Event], [STARTED, asyncio.Event], [STARTED, *spoken(5), asyncio.Event]])
async def test_a_client_that_drops_frees_the_engine_streaming_or_not(mesh, stream, steps):
    mesh.engines["l1"].steps = [step() if step is asyncio.Event else step for step in steps]
    asked = asyncio.ensure_future(mesh.chat(chat(stream=stream)))
    async with asyncio.timeout(60):
        await mesh.engines["l1"].entered.wait()
        asked.cancel()
        await mesh.engines["l1"].abandoned.wait()
    await asyncio.gather(asked, return_exceptions=True)
    assert not mesh.engines["l2"].requests
    await mesh.wired.stores.drain()
    assert not mesh.cache.stores


async def test_a_tier_that_never_answers_costs_the_deadline_once():
    async with running_router(tiers=_one_tier()) as mesh:
        mesh.engines["l1"].hangs = True
        asked = await until_one_arrives(lambda s: mesh.generate(timeout=s), mesh.engines["l1"].requests, deadline_s=1.0)
        assert asked.result.status == grpc.StatusCode.DEADLINE_EXCEEDED
        assert asked.deadline_s - 0.2 < asked.took_s < asked.deadline_s + 10
        assert len(mesh.engines["l1"].requests) == 1


def _one_tier():
    return [{"name": "l1", "backend": "vllm", "model": "small"}]


@pytest.mark.parametrize(
    "error", [InvalidRequest("stop[0]: bad"), QueueFull("busy", retry_after=2.0), Unavailable("x")]
)
async def test_the_router_calls_a_failing_tier_once(error):
    async with running_router(tiers=_one_tier()) as mesh:
        mesh.engines["l1"].error = error
        answer = await mesh.generate()
        assert answer.error.reason == error.reason
        assert answer.error.retry_after == error.retry_after
        assert len(mesh.engines["l1"].requests) == 1


async def test_a_hundred_requests_on_a_dead_mesh_make_one_call_a_tier_each_at_most(mesh):
    for engine in mesh.engines.values():
        engine.error = Unavailable("gone")
    answers = await asyncio.gather(*(mesh.generate(ask(f"question {n}")) for n in range(100)))
    assert all(answer.error.reason == "NO_ELIGIBLE_TIER" for answer in answers)
    assert len(mesh.engines["l1"].requests) <= 100
    assert len(mesh.engines["l2"].requests) <= 100


async def test_streamed_usage_is_one_chunk_without_choices_before_the_end(mesh):
    mesh.engines["l1"].error = QueueFull("busy")
    seen, done = chunks(await mesh.chat(chat(stream=True, stream_options={"include_usage": True})))
    assert done
    assert [chunk["usage"] for chunk in seen[:-1]] == [None] * (len(seen) - 1)
    assert seen[-1]["choices"] == []
    assert seen[-1]["usage"]["completion_tokens"] == 3


async def test_two_streamed_choices_carry_their_index_and_stay_whole(mesh):
    mesh.engines["l1"].steps = answer_steps("one ", "two ", "three", choices=2)
    seen, done = chunks(await mesh.chat(chat(stream=True, n=2)))
    assert done
    texts, finishes = {0: "", 1: ""}, {}
    for chunk in seen:
        for choice in chunk["choices"]:
            texts[choice["index"]] += choice["delta"].get("content") or ""
            if choice["finish_reason"]:
                finishes[choice["index"]] = choice["finish_reason"]
    assert texts == {0: "one two three", 1: "one two three"}
    assert finishes == {0: "stop", 1: "stop"}


async def test_an_assistant_turn_of_tool_calls_alone_is_accepted_and_no_messages_are_refused(mesh):
    turns = [
        {"role": "user", "content": "What is the weather?"},
        {
            "role": "assistant",
            "content": None,
            "tool_calls": [{"id": "c1", "type": "function", "function": {"name": "weather", "arguments": "{}"}}],
        },
        {"role": "tool", "tool_call_id": "c1", "content": "Rain."},
    ]
    assert (await mesh.chat(chat(messages=turns))).error is None
    refused = await mesh.chat(chat(messages=[]))
    assert isinstance(refused.error, InvalidRequest)
    assert refused.error.field == "messages"
    assert (await mesh.generate(metadata=METADATA)).error is None
