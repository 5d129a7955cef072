"""Chat completion bodies: what is honoured, accepted, and refused by name."""

import json

import pytest
from tiermesh.api.common.v1 import chat_pb2
from tiermesh.router.openai.request import read_chat_request
from tiermesh.shared.errors import InvalidRequest

USER = {"role": "user", "content": "你好"}
CALL = {"id": "c1", "type": "function", "function": {"name": "add", "arguments": '{"a":1}'}}


def read(body, max_bytes=100_000):
    raw = body if isinstance(body, bytes) else json.dumps(body).encode()
    return read_chat_request(raw, max_bytes=max_bytes)


def chat(**fields):
    return {"model": "auto", "messages": [USER], **fields}


def messages(*items):
    return {"model": "auto", "messages": list(items)}


@pytest.mark.parametrize(
    ("body", "words"),
    [
        (b"", "empty"),
        (b" \n", "empty"),
        (b"{", "not valid JSON"),
        (b'{"model": nan}', "not valid JSON"),
        (b"[]", "must be a JSON object, not an array"),
        (b'"text"', "must be a JSON object, not a string"),
        (b"null", "must be a JSON object, not null"),
        (b"[" * 5000, "not valid JSON"),
        (b"\xff\xfe{}", "byte 0 is 0xff"),
        (b'{"messages": "\xc3\x28"}', "not valid UTF-8: byte 14 is 0xc3"),
        (rb'{"messages": "\ud800"}', "not valid JSON"),
        (b'{"a": "' + b"x" * 100_000 + b'"}', "at most 100000"),
    ],
)
def test_bodies_that_are_no_json_object(body, words):
    with pytest.raises(InvalidRequest) as caught:
        read(body)
    assert words in caught.value.message
    assert caught.value.field == ""


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ({}, "messages"),
        ({"model": "auto"}, "messages"),
        (chat(messages=None), "messages"),
        (chat(messages=[]), "messages"),
        (chat(messages="hello"), "messages"),
        (chat(messages={}), "messages"),
        (messages(1), "messages[0]"),
        (messages(USER, None), "messages[1]"),
        (messages({"content": "x"}), "messages[0].role"),
        (messages({"role": "robot", "content": "x"}), "messages[0].role"),
        (messages({"role": ["user"], "content": "x"}), "messages[0].role"),
        (messages({"role": "function", "name": "f", "content": "x"}), "messages[0].role"),
        (messages({"role": "user"}), "messages[0].content"),
        (messages({"role": "user", "content": None}), "messages[0].content"),
        (messages({"role": "user", "content": ""}), "messages[0].content"),
        (messages({"role": "user", "content": []}), "messages[0].content"),
        (messages({"role": "user", "content": 5}), "messages[0].content"),
        (messages({"role": "user", "content": {"type": "text"}}), "messages[0].content"),
        (messages({"role": "user", "content": ["x"]}), "messages[0].content[0]"),
        (messages({"role": "user", "content": [{"text": "x"}]}), "messages[0].content[0].type"),
        (messages({"role": "user", "content": [{"type": 1}]}), "messages[0].content[0].type"),
        (messages({"role": "user", "content": [{"type": "text"}]}), "messages[0].content[0].text"),
        (messages({"role": "user", "content": [{"type": "text", "text": 1}]}), "messages[0].content[0].text"),
        (messages({"role": "user", "content": [{"type": "text", "text": "a", "x": 1}]}), "messages[0].content[0].x"),
        (messages({"role": "user", "content": [{"type": "image_url", "image_url": {}}]}), "messages[0].content[0].type"),
        (messages({"role": "user", "content": [{"type": "input_audio"}]}), "messages[0].content[0].type"),
        (messages(USER, {"role": "user", "content": [{"type": "text", "text": "a"}, {"type": "file"}]}), "messages[1].content[1].type"),
        (messages({**USER, "name": 1}), "messages[0].name"),
        (messages({**USER, "tool_calls": [CALL]}), "messages[0].tool_calls"),
        (messages({**USER, "colour": "red"}), "messages[0].colour"),
        (messages({"role": "tool", "content": "4"}), "messages[0].tool_call_id"),
        (messages({"role": "tool", "content": "4", "tool_call_id": 1}), "messages[0].tool_call_id"),
        (messages(USER, {"role": "assistant", "content": "x"}), "messages[1].role"),
        (messages({"role": "assistant", "content": None}, USER), "messages[0].content"),
        (messages({"role": "assistant", "content": "x", "audio": {"id": "1"}}, USER), "messages[0].audio"),
        (messages({"role": "assistant", "tool_calls": "x"}, USER), "messages[0].tool_calls"),
        (messages({"role": "assistant", "tool_calls": [1]}, USER), "messages[0].tool_calls[0]"),
        (messages({"role": "assistant", "tool_calls": [{**CALL, "type": "custom"}]}, USER), "messages[0].tool_calls[0].type"),
        (messages({"role": "assistant", "tool_calls": [{**CALL, "id": None}]}, USER), "messages[0].tool_calls[0].id"),
        (messages({"role": "assistant", "tool_calls": [{"id": "1"}]}, USER), "messages[0].tool_calls[0].function"),
        (
            messages({"role": "assistant", "tool_calls": [{**CALL, "function": {"name": "", "arguments": ""}}]}, USER),
            "messages[0].tool_calls[0].function.name",
        ),
        (
            messages({"role": "assistant", "tool_calls": [{**CALL, "function": {"name": "f", "arguments": {}}}]}, USER),
            "messages[0].tool_calls[0].function.arguments",
        ),
        (chat(model=7), "model"),
        (chat(temperature="hot"), "temperature"),
        (chat(temperature=True), "temperature"),
        (chat(temperature=2.01), "temperature"),
        (chat(temperature=-0.1), "temperature"),
        (chat(top_p=0), "top_p"),
        (chat(top_p=1.1), "top_p"),
        (chat(presence_penalty=2.5), "presence_penalty"),
        (chat(frequency_penalty=[1]), "frequency_penalty"),
        (chat(max_tokens=0), "max_tokens"),
        (chat(max_tokens=1.5), "max_tokens"),
        (chat(max_tokens="5"), "max_tokens"),
        (chat(max_tokens=2**31), "max_tokens"),
        (chat(max_tokens=5, max_completion_tokens=6), "max_completion_tokens"),
        (chat(max_completion_tokens=6, max_tokens=5), "max_completion_tokens"),
        (chat(n=0), "n"),
        (chat(n=9), "n"),
        (chat(n=True), "n"),
        (chat(stop=1), "stop"),
        (chat(stop=["a"] * 5), "stop"),
        (chat(stop=["a", ""]), "stop[1]"),
        (chat(stop=[1]), "stop[0]"),
        (chat(seed="x"), "seed"),
        (chat(seed=2**63), "seed"),
        (chat(seed=2**70), "seed"),
        (chat(seed=1.0), "seed"),
        (chat(stream="yes"), "stream"),
        (chat(stream=1), "stream"),
        (chat(stream_options={"include_usage": True}), "stream_options"),
        (chat(stream=True, stream_options=True), "stream_options"),
        (chat(stream=True, stream_options={"include_usage": 1}), "stream_options.include_usage"),
        (chat(stream=True, stream_options={"usage": True}), "stream_options.usage"),
        (chat(logprobs=1), "logprobs"),
        (chat(top_logprobs=2), "top_logprobs"),
        (chat(logprobs=False, top_logprobs=2), "top_logprobs"),
        (chat(logprobs=True, top_logprobs=21), "top_logprobs"),
        (chat(frobnicate=1), "frobnicate"),
        (chat(frobnicate=None), "frobnicate"),
        (chat(tools=[]), "tools"),
        (chat(tool_choice="auto"), "tool_choice"),
        (chat(functions=[{"name": "f"}]), "functions"),
        (chat(function_call="auto"), "function_call"),
        (chat(response_format={"type": "json_object"}), "response_format.type"),
        (chat(response_format={"type": "json_schema", "json_schema": {}}), "response_format.type"),
        (chat(response_format="text"), "response_format"),
        (chat(modalities=["text", "audio"]), "modalities"),
        (chat(audio={"voice": "x"}), "audio"),
        (chat(logit_bias={"1": 5}), "logit_bias"),
        (chat(prediction={"type": "content"}), "prediction"),
        (chat(web_search_options={}), "web_search_options"),
        (chat(moderation={}), "moderation"),
        (chat(store=True), "store"),
        (chat(store=0), "store"),
        (chat(service_tier="flex"), "service_tier"),
        (chat(verbosity="low"), "verbosity"),
        (chat(reasoning_effort="high"), "reasoning_effort"),
        (chat(user=1), "user"),
        (chat(metadata={"a": 1}), "metadata.a"),
    ],
)  # fmt: skip
def test_what_is_refused_is_named(body, field):
    with pytest.raises(InvalidRequest) as caught:
        read(body)
    assert caught.value.field == field
    assert caught.value.message.startswith(f"{field}: ")


def test_what_is_honoured():
    found = read(
        chat(
            model="tier:l1",
            stream=True,
            stream_options={"include_usage": True, "include_obfuscation": False},
            n=2,
            stop=["\n", "完"],
            max_completion_tokens=5,
            temperature=0,
            top_p=0.5,
            seed=-(2**63),
            logprobs=True,
            top_logprobs=3,
            presence_penalty=-2,
            frequency_penalty=2.0,
        )
    )
    assert found.stream
    assert found.include_usage
    assert found.request.model == "tier:l1"
    assert found.request.messages == [chat_pb2.Message(role=chat_pb2.ROLE_USER, content="你好")]
    assert found.request.sampling == chat_pb2.Sampling(
        temperature=0.0,
        top_p=0.5,
        max_tokens=5,
        stop=["\n", "完"],
        seed=-(2**63),
        choice_count=2,
        logprobs=True,
        top_logprob_count=3,
        presence_penalty=-2.0,
        frequency_penalty=2.0,
    )


def test_what_is_left_out_and_what_is_null_stays_unset():
    names = ("temperature", "top_p", "max_tokens", "seed", "n", "stop", "logprobs", "top_logprobs", "stream", "tools")
    bare, nulls = read({"messages": [USER]}), read(chat(model=None, **dict.fromkeys(names)))
    assert bare == nulls
    assert bare.request.model == ""
    assert not bare.stream
    assert not bare.request.sampling.ListFields()


@pytest.mark.parametrize(
    "fields",
    [
        {"user": "ann"},
        {"metadata": {"a": "b"}},
        {"safety_identifier": "x"},
        {"prompt_cache_key": "x"},
        {"prompt_cache_retention": "24h"},
        {"prompt_cache_options": {"ttl": "30m"}},
        {"parallel_tool_calls": True},
        {"store": False},
        {"service_tier": "auto"},
        {"service_tier": "default"},
        {"response_format": {"type": "text"}},
        {"modalities": ["text"]},
        {"verbosity": "medium"},
        {"reasoning_effort": "none"},
        {"logit_bias": {}},
        {"tool_choice": "none"},
        {"max_tokens": None, "max_completion_tokens": None},
    ],
)
def test_what_changes_nothing_is_accepted_and_changes_nothing(fields):
    assert read(chat(**fields)) == read(chat())


def test_one_limit_by_two_names():
    assert read(chat(max_tokens=7, max_completion_tokens=7)) == read(chat(max_tokens=7))


def test_a_single_stop_is_a_list_of_one():
    assert read(chat(stop="x")) == read(chat(stop=["x"]))


def test_text_parts_are_joined_as_they_are():
    parts = [{"type": "text", "text": "你"}, {"type": "text", "text": "好"}]
    assert read(messages({"role": "user", "content": parts})) == read(messages(USER))


def test_roles_and_tool_history():
    found = read(
        messages(
            {"role": "developer", "content": "Be brief."},
            {"role": "system", "content": "Be kind.", "name": "ops"},
            USER,
            {"role": "assistant", "content": None, "tool_calls": [CALL]},
            {"role": "tool", "content": [{"type": "text", "text": "1"}], "tool_call_id": "c1"},
        )
    )
    system, named, _, assistant, tool = found.request.messages
    assert system.role == named.role == chat_pb2.ROLE_SYSTEM
    assert named.name == "ops"
    assert assistant.tool_calls == [chat_pb2.ToolCall(id="c1", name="add", arguments_json='{"a":1}')]
    assert (tool.role, tool.content, tool.tool_call_id) == (chat_pb2.ROLE_TOOL, "1", "c1")


def test_an_answer_can_be_sent_back_as_it_came():
    echo = {"role": "assistant", "content": "Hi", "refusal": None, "annotations": [], "audio": None, "function_call": None, "tool_calls": None}  # fmt: skip
    assert read(messages(USER, echo, USER)) == read(messages(USER, {"role": "assistant", "content": "Hi"}, USER))


def test_every_parameter_of_the_official_client_is_known():
    from openai.types.chat import completion_create_params

    known = completion_create_params.CompletionCreateParamsBase.__annotations__
    for name in {*known, "stream"} - {"messages", "model"}:
        try:
            read(chat(**{name: object.__name__}))
        except InvalidRequest as error:
            assert "is not a parameter" not in error.message  # noqa: PT017 -- every name has its own error
