"""Reads a chat completion request, strictly: what it cannot honour it refuses by name.

    honoured      model messages stream stream_options.include_usage n stop max_tokens
                  max_completion_tokens temperature top_p seed logprobs top_logprobs
                  presence_penalty frequency_penalty
    accepted      user metadata safety_identifier prompt_cache_key prompt_cache_retention
                  prompt_cache_options parallel_tool_calls stream_options.include_obfuscation: they
                  change no answer here, so nothing is lost by ignoring them
    one value     store=false, service_tier auto or default, response_format text, modalities
                  [text], verbosity medium, reasoning_effort none, logit_bias {}, tool_choice none:
                  they ask for what happens anyway; any other value is refused
    refused       tools functions function_call audio prediction web_search_options moderation, and
                  every name that OpenAI does not have either

`null` is the same as leaving a parameter out. `max_tokens` and `max_completion_tokens` mean the
same and must not disagree.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from tiermesh.api.common.v1 import chat_pb2
from tiermesh.api.router.v1 import router_pb2
from tiermesh.router.openai import fields
from tiermesh.router.openai.messages import read_messages
from tiermesh.router.validation import (
    FLOAT_RANGES,
    INT32_MAX,
    MAX_CHOICES,
    MAX_TOP_LOGPROBS,
    check_range,
    check_stops,
    check_top_p,
    invalid,
)

_INT64_MIN, _INT64_MAX = -(2**63), 2**63 - 1


@dataclass(frozen=True, slots=True)
class ChatRequest:
    """A chat completion request."""

    request: router_pb2.GenerateRequest
    stream: bool
    include_usage: bool
    """Whether a stream ends with a chunk that holds the usage."""


@dataclass(slots=True)
class _Draft:
    """What has been read so far."""

    sampling: chat_pb2.Sampling = field(default_factory=chat_pb2.Sampling)
    model: str = ""
    stream: bool = False
    stream_options: dict[str, Any] | None = None


_Reader = Callable[[_Draft, str, Any], None]


def read_chat_request(body: bytes, *, max_bytes: int) -> ChatRequest:
    """Returns the request in a body.

    Args:
        body: JSON in UTF-8.
        max_bytes: Longest body allowed.

    Raises:
        InvalidRequest: the message names the parameter at fault.
    """
    values = fields.read_object(body, max_bytes=max_bytes)
    draft = _Draft()
    for name, value in values.items():
        reader = _READERS.get(name)
        if reader is None:
            raise invalid(name[:64], "is not a parameter of chat completions; leave it out")
        if value is not None:
            reader(draft, name, value)
    if values.get("messages") is None:
        raise invalid("messages", "is required")
    sampling = draft.sampling
    if sampling.top_logprob_count and not sampling.logprobs:
        raise invalid("top_logprobs", "needs logprobs to be true")
    if draft.stream_options is not None and not draft.stream:
        raise invalid("stream_options", "is only for requests with stream set to true")
    request = router_pb2.GenerateRequest(
        model=draft.model, messages=read_messages(values["messages"]), sampling=sampling
    )
    include_usage = draft.stream_options is not None and bool(draft.stream_options.get("include_usage"))
    return ChatRequest(request, draft.stream, include_usage)


def _model(draft: _Draft, name: str, value: Any) -> None:
    draft.model = fields.text(name, value)


def _stream(draft: _Draft, name: str, value: Any) -> None:
    draft.stream = fields.boolean(name, value)


def _stream_options(draft: _Draft, name: str, value: Any) -> None:
    options = fields.mapping(name, value, known={"include_usage", "include_obfuscation"})
    for key, flag in options.items():
        if flag is not None:
            fields.boolean(f"{name}.{key}", flag)
    draft.stream_options = options


def _float(draft: _Draft, name: str, value: Any) -> None:
    checked = fields.number(name, value)
    check_range(name, checked, *FLOAT_RANGES[name])
    setattr(draft.sampling, name, checked)


def _top_p(draft: _Draft, name: str, value: Any) -> None:
    checked = fields.number(name, value)
    check_top_p(name, checked)
    draft.sampling.top_p = checked


def _max_tokens(draft: _Draft, name: str, value: Any) -> None:
    checked = fields.integer(name, value, 1, INT32_MAX)
    if draft.sampling.HasField("max_tokens") and draft.sampling.max_tokens != checked:
        raise invalid("max_completion_tokens", "disagrees with max_tokens; send only one of the two")
    draft.sampling.max_tokens = checked


def _n(draft: _Draft, name: str, value: Any) -> None:
    draft.sampling.choice_count = fields.integer(name, value, 1, MAX_CHOICES)


def _seed(draft: _Draft, name: str, value: Any) -> None:
    draft.sampling.seed = fields.integer(name, value, _INT64_MIN, _INT64_MAX)


def _stop(draft: _Draft, name: str, value: Any) -> None:
    if isinstance(value, str):
        stops = [value]
    elif isinstance(value, list):
        stops = [fields.text(f"{name}[{n}]", item) for n, item in enumerate(value)]
    else:
        raise invalid(name, f"must be a string or an array of strings, not {fields.kind_of(value)}")
    check_stops(name, stops)
    draft.sampling.stop.extend(stops)


def _logprobs(draft: _Draft, name: str, value: Any) -> None:
    draft.sampling.logprobs = fields.boolean(name, value)


def _top_logprobs(draft: _Draft, name: str, value: Any) -> None:
    draft.sampling.top_logprob_count = fields.integer(name, value, 0, MAX_TOP_LOGPROBS)


def _messages(_draft: _Draft, _name: str, _value: Any) -> None:
    """Read last, so that a wrong parameter is reported before a long conversation is read."""


def _ignored_text(_draft: _Draft, name: str, value: Any) -> None:
    fields.text(name, value)


def _ignored_flag(_draft: _Draft, name: str, value: Any) -> None:
    fields.boolean(name, value)


def _ignored_object(_draft: _Draft, name: str, value: Any) -> None:
    fields.mapping(name, value)


def _metadata(_draft: _Draft, name: str, value: Any) -> None:
    for key, item in fields.mapping(name, value).items():
        fields.text(f"{name}.{key[:64]}", item)


def _only(*allowed: Any) -> _Reader:
    def read(_draft: _Draft, name: str, value: Any) -> None:
        # 0 equals False in Python, but not in JSON.
        if not any(value == item and type(value) is type(item) for item in allowed):
            shown = " or ".join(str(item).lower() for item in allowed)
            raise invalid(name, f"only {shown} is supported")

    return read


def _response_format(_draft: _Draft, name: str, value: Any) -> None:
    kind = fields.mapping(name, value).get("type")
    if kind != "text":
        raise invalid(f"{name}.type", "only text is supported yet")


def _logit_bias(_draft: _Draft, name: str, value: Any) -> None:
    if fields.mapping(name, value):
        raise invalid(name, "is not supported yet; leave it out")


def _modalities(_draft: _Draft, name: str, value: Any) -> None:
    if fields.array(name, value) != ["text"]:
        raise invalid(name, "only [text] is supported")


def _unsupported(_draft: _Draft, name: str, _value: Any) -> None:
    raise invalid(name, "is not supported yet; leave it out")


_READERS: dict[str, _Reader] = {
    "model": _model,
    "messages": _messages,
    "stream": _stream,
    "stream_options": _stream_options,
    "temperature": _float,
    "presence_penalty": _float,
    "frequency_penalty": _float,
    "top_p": _top_p,
    "max_tokens": _max_tokens,
    "max_completion_tokens": _max_tokens,
    "n": _n,
    "seed": _seed,
    "stop": _stop,
    "logprobs": _logprobs,
    "top_logprobs": _top_logprobs,
    "user": _ignored_text,
    "metadata": _metadata,
    "safety_identifier": _ignored_text,
    "prompt_cache_key": _ignored_text,
    "prompt_cache_retention": _ignored_text,
    "prompt_cache_options": _ignored_object,
    "parallel_tool_calls": _ignored_flag,
    "store": _only(False),
    "service_tier": _only("auto", "default"),
    "response_format": _response_format,
    "modalities": _modalities,
    "verbosity": _only("medium"),
    "reasoning_effort": _only("none"),
    "logit_bias": _logit_bias,
    "tool_choice": _only("none"),
    "tools": _unsupported,
    "functions": _unsupported,
    "function_call": _unsupported,
    "audio": _unsupported,
    "prediction": _unsupported,
    "web_search_options": _unsupported,
    "moderation": _unsupported,
}
