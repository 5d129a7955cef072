"""OpenAIService: JSON documents, event streams, models and errors."""

import asyncio
import json

import grpc
import pytest
from google.api import httpbody_pb2
from harness.router import METADATA
from openai.types import Model
from openai.types.chat import ChatCompletion, ChatCompletionChunk
from tiermesh.api.common.v1 import answer_pb2
from tiermesh.api.engine.v1 import engine_pb2
from tiermesh.api.openai.v1 import openai_pb2
from tiermesh.shared.errors import InvalidRequest, QueueFull, StreamBroken, Unauthenticated, Unavailable
from tiermesh.shared.testing import answer_steps


def body(text="What is a river?", **fields):
    return json.dumps({"model": "auto", "messages": [{"role": "user", "content": text}], **fields}).encode()


def events(answer):
    """The JSON of each event, without [DONE]."""
    blocks = answer.body.decode().split("\n\n")
    assert blocks.pop() == ""
    assert all(block.startswith("data: ") for block in blocks)
    datas = [block.removeprefix("data: ") for block in blocks]
    return [data if data == "[DONE]" else json.loads(data) for data in datas]


async def test_a_document(mesh):
    answer = await mesh.chat(body())
    assert answer.error is None
    (message,) = answer.messages
    assert message.content_type == "application/json"
    found = ChatCompletion.model_validate_json(message.data)
    assert found.id == "chatcmpl-req-1"
    assert found.object == "chat.completion"
    assert found.created > 1_700_000_000
    assert found.model == "small"
    assert found.system_fingerprint == mesh.settings.current.version
    (choice,) = found.choices
    assert (choice.index, choice.message.role, choice.finish_reason) == (0, "assistant", "stop")
    assert choice.message.content == "l1 says 你好"
    assert choice.logprobs is None
    usage = found.usage
    assert (usage.prompt_tokens, usage.completion_tokens, usage.total_tokens) == (7, 3, 10)
    assert usage.prompt_tokens_details.cached_tokens == 2
    assert answer.headers["x-tiermesh-tier"] == "l1"
    assert answer.headers["x-tiermesh-cache"] == "miss"


async def test_a_stream(mesh):
    answer = await mesh.chat(body(stream=True))
    assert {message.content_type for message in answer.messages} == {"text/event-stream; charset=utf-8"}
    found = events(answer)
    assert found.pop() == "[DONE]"
    chunks = [ChatCompletionChunk.model_validate(chunk) for chunk in found]
    assert {c.object for c in chunks} == {"chat.completion.chunk"}
    assert {(c.id, c.model, c.system_fingerprint) for c in chunks} == {
        ("chatcmpl-req-1", "small", mesh.settings.current.version)
    }
    assert chunks[0].choices[0].delta.role == "assistant"
    assert [c.choices[0].delta.content for c in chunks[1:-1]] == ["l1 ", "says ", "你好"]
    assert [c.choices[0].finish_reason for c in chunks] == [None] * 4 + ["stop"]
    assert all("usage" not in chunk for chunk in found)
    assert answer.headers["x-tiermesh-tier"] == "l1"


async def test_every_piece_is_a_message_of_its_own_as_it_comes(mesh):
    gate = asyncio.Event()
    steps = answer_steps("one", "two")
    mesh.engines["l1"].steps = [*steps[:2], gate, *steps[2:]]
    request = httpbody_pb2.HttpBody(data=body(stream=True))
    call = mesh.openai.CreateChatCompletion(request, timeout=60, metadata=METADATA)
    first = (await call.read()).data
    assert first.index(b'"role":"assistant"') < first.index(b'"one"')
    gate.set()
    assert b'"two"' in (await call.read()).data
    assert (await call.read()).data.endswith(b"data: [DONE]\n\n")


@pytest.mark.parametrize("steps", [[], [answer_steps()[-1]]], ids=["cut off", "empty"])
async def test_the_chunk_that_names_the_role_is_never_lost(mesh, steps):
    begun = answer_steps("")[:2]
    failed = engine_pb2.GenerateResponse(failure=answer_pb2.Failure(reason="DEVICE_FAILED", message="gone"))
    mesh.engines["l1"].steps = [*begun, *(steps or [failed])]
    call = mesh.openai.CreateChatCompletion(
        httpbody_pb2.HttpBody(data=body(stream=True)), timeout=60, metadata=METADATA
    )
    seen = b""
    async with asyncio.timeout(60):
        while not seen.endswith(b"[DONE]\n\n") and b'"error"' not in seen:
            seen += (await call.read()).data
    assert seen.count(b'"role":"assistant"') == 1
    assert seen.startswith(b"data: ")
    assert (b"[DONE]" in seen) == bool(steps)


async def test_usage_comes_last_where_it_was_asked_for(mesh):
    found = events(await mesh.chat(body(stream=True, stream_options={"include_usage": True})))
    assert found.pop() == "[DONE]"
    usage = found.pop()
    assert usage["choices"] == []
    assert usage["usage"]["total_tokens"] == 10
    assert all(chunk["usage"] is None for chunk in found)


@pytest.mark.parametrize("stream", [False, True])
async def test_choices(mesh, stream):
    mesh.engines["l1"].steps = answer_steps("a", "b", choices=3, finish=answer_pb2.FINISH_REASON_LENGTH)
    answer = await mesh.chat(body(n=3, stream=stream))
    if not stream:
        choices = json.loads(answer.body)["choices"]
        assert [(c["index"], c["message"]["content"], c["finish_reason"]) for c in choices] == [
            (n, "ab", "length") for n in range(3)
        ]
        return
    texts, first, ends = {}, {}, {}
    for chunk in events(answer)[:-1]:
        (choice,) = chunk["choices"]
        first.setdefault(choice["index"], choice["delta"])
        texts[choice["index"]] = texts.get(choice["index"], "") + choice["delta"].get("content", "")
        ends[choice["index"]] = choice["finish_reason"]
    assert texts == {0: "ab", 1: "ab", 2: "ab"}
    assert {delta["role"] for delta in first.values()} == {"assistant"}
    assert ends == {0: "length", 1: "length", 2: "length"}


@pytest.mark.parametrize("stream", [False, True])
async def test_logprobs(mesh, stream):
    token = answer_pb2.TokenLogprob(
        token="好",
        token_bytes="好".encode(),
        logprob=-0.5,
        top=[
            answer_pb2.TopLogprob(token="好", token_bytes="好".encode(), logprob=-0.5),
            answer_pb2.TopLogprob(token="x", token_bytes=b"x", logprob=float("-inf")),
        ],
    )
    steps = answer_steps("好")
    steps[1] = engine_pb2.GenerateResponse(delta=answer_pb2.Delta(text="好", logprobs=[token]))
    mesh.engines["l1"].steps = steps
    answer = await mesh.chat(body(stream=stream, logprobs=True, top_logprobs=2))
    assert mesh.engines["l1"].requests[0].sampling.top_logprob_count == 2
    if stream:
        found = ChatCompletionChunk.model_validate(events(answer)[1]).choices[0].logprobs
    else:
        found = ChatCompletion.model_validate_json(answer.body).choices[0].logprobs
    (entry,) = found.content
    assert (entry.token, entry.logprob, bytes(entry.bytes).decode()) == ("好", -0.5, "好")
    assert [(top.token, top.logprob) for top in entry.top_logprobs] == [("好", -0.5), ("x", -9999.0)]


@pytest.mark.parametrize("stream", [False, True])
async def test_a_hit_is_the_same_answer_with_the_same_usage(mesh, stream):
    first = await mesh.chat(body(stream=stream, stream_options={"include_usage": True} if stream else None))
    async with asyncio.timeout(60):
        await mesh.cache.stored.wait()
    again = await mesh.chat(body(stream=stream, stream_options={"include_usage": True} if stream else None))
    assert again.headers["x-tiermesh-cache"] == "hit"

    def timeless(answer):
        found = events(answer) if stream else [json.loads(answer.body)]
        return [{**item, "created": 0} if isinstance(item, dict) else item for item in found]

    assert timeless(again) == timeless(first)


async def test_both_doors_share_the_cache(mesh):
    await mesh.generate()
    async with asyncio.timeout(60):
        await mesh.cache.stored.wait()
    assert (await mesh.chat(body("What is a river?"))).headers["x-tiermesh-cache"] == "hit"
    parts = [{"type": "text", "text": "What is "}, {"type": "text", "text": "a river?"}]
    assert (await mesh.chat(body(parts))).headers["x-tiermesh-cache"] == "hit"


async def test_a_failure_before_the_first_event_is_a_status_with_an_openai_body(mesh):
    mesh.engines["l1"].error = QueueFull("忙", retry_after=2)
    for stream in (False, True):
        answer = await mesh.chat(body(model="tier:l1", stream=stream))
        assert answer.messages == []
        assert answer.status == grpc.StatusCode.RESOURCE_EXHAUSTED
        raw = answer.trailers["x-openai-error"]
        assert raw.isascii()
        assert json.loads(raw) == {
            "error": {
                "message": "tier l1: 忙",
                "type": "rate_limit_error",
                "param": None,
                "code": "QUEUE_FULL",
            }
        }
        assert answer.trailers["retry-after"] == "2"


BROKEN = [*answer_steps("half")[:2], Unavailable("connection lost")]


async def test_a_failure_in_mid_stream_is_an_error_event_and_no_done(mesh):
    mesh.engines["l1"].steps = BROKEN
    answer = await mesh.chat(body(stream=True))
    found = events(answer)
    assert found[1]["choices"][0]["delta"]["content"] == "half"
    assert found[-1]["error"]["code"] == "STREAM_BROKEN"
    assert found[-1]["error"]["type"] == "server_error"
    assert "[DONE]" not in found
    assert isinstance(answer.error, StreamBroken)


async def test_a_failure_in_the_middle_of_a_document_is_a_status(mesh):
    mesh.engines["l1"].steps = BROKEN
    answer = await mesh.chat(body())
    assert answer.messages == []
    assert isinstance(answer.error, StreamBroken)
    assert json.loads(answer.trailers["x-openai-error"])["error"]["code"] == "STREAM_BROKEN"


async def test_a_caller_that_leaves_frees_the_engine(mesh):
    for stream in (False, True):
        mesh.engines["l1"].steps = [*answer_steps("half")[:2], asyncio.Event()]
        mesh.engines["l1"].entered.clear()
        mesh.engines["l1"].abandoned.clear()
        request = httpbody_pb2.HttpBody(data=body(f"stream={stream}", stream=stream))
        call = mesh.openai.CreateChatCompletion(request, timeout=60, metadata=METADATA)
        reading = asyncio.ensure_future(call.read())
        async with asyncio.timeout(60):
            await mesh.engines["l1"].entered.wait()
            call.cancel()
            await mesh.engines["l1"].abandoned.wait()
        await asyncio.gather(reading, return_exceptions=True)


async def test_bad_bodies_name_the_field_and_the_next_one_works(mesh):
    answer = await mesh.chat(body(temperature="hot"))
    assert isinstance(answer.error, InvalidRequest)
    error = json.loads(answer.trailers["x-openai-error"])["error"]
    assert error == {
        "message": "temperature: must be a number, not a string",
        "type": "invalid_request_error",
        "param": "temperature",
        "code": "INVALID_REQUEST",
    }
    assert (await mesh.chat(body())).error is None


async def test_a_body_over_the_limit_is_refused(mesh):
    answer = await mesh.chat(body("x" * (4 * 1024 * 1024)))
    assert "4194304" in answer.error.message


async def test_without_a_tenant_nothing_is_served(mesh):
    answer = await mesh.chat(body(), metadata=())
    assert isinstance(answer.error, Unauthenticated)
    assert json.loads(answer.trailers["x-openai-error"])["error"]["type"] == "authentication_error"
    with pytest.raises(grpc.aio.AioRpcError):
        await mesh.openai.ListModels(openai_pb2.ListModelsRequest(), metadata=())


async def test_models(mesh):
    listed = await mesh.openai.ListModels(openai_pb2.ListModelsRequest(), metadata=METADATA)
    assert listed.content_type == "application/json"
    document = json.loads(listed.data)
    models = [Model.model_validate(item) for item in document["data"]]
    assert document["object"] == "list"
    assert [m.id for m in models] == ["auto", "tier:l0", "tier:l1", "tier:l2", "rules", "small", "large"]
    assert {m.owned_by for m in models} == {"tiermesh"}
    one = await mesh.openai.GetModel(openai_pb2.GetModelRequest(model="tier:l1"), metadata=METADATA)
    assert json.loads(one.data) == document["data"][2]


@pytest.mark.parametrize("name", ["nonesuch", "", "tier:", "不存在"])
async def test_unknown_models(mesh, name):
    with pytest.raises(grpc.aio.AioRpcError) as caught:
        await mesh.openai.GetModel(openai_pb2.GetModelRequest(model=name), metadata=METADATA)
    assert caught.value.code() == grpc.StatusCode.NOT_FOUND
    assert json.loads(dict(caught.value.trailing_metadata())["x-openai-error"])["error"]["param"] == "model"
