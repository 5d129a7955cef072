"""Writes answers in OpenAI's shapes: one document, or the chunks of a stream."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

import orjson
from tiermesh.api.common.v1 import answer_pb2
from tiermesh.api.router.v1 import router_pb2
from tiermesh.router.events import Completed
from tiermesh.router.openai.errors import error_body
from tiermesh.shared.errors import TiermeshError

DONE = b"data: [DONE]\n\n"
_NO_CHANCE = -9999.0
"""OpenAI's stand-in for a log-probability of minus infinity, which JSON cannot write."""
_FINISH = {answer_pb2.FINISH_REASON_STOP: "stop", answer_pb2.FINISH_REASON_LENGTH: "length"}


@dataclass(frozen=True, slots=True)
class Identity:
    """What every document and chunk of one answer repeats."""

    id: str
    created: int
    model: str
    system_fingerprint: str


def identity_of(label: router_pb2.RouteLabel, *, created: float) -> Identity:
    """Returns the identity of an answer, from its label and the time in seconds since the Unix epoch."""
    return Identity(f"chatcmpl-{label.request_id}", int(created), label.model, label.config_version)


@dataclass(slots=True)
class Document:
    """Collects the pieces of an answer and writes them as one `chat.completion`."""

    choice_count: int
    with_logprobs: bool
    texts: list[list[str]] = field(init=False)
    logprobs: list[list[dict[str, Any]]] = field(init=False)

    def __post_init__(self) -> None:
        self.texts = [[] for _ in range(self.choice_count)]
        self.logprobs = [[] for _ in range(self.choice_count)]

    def add(self, delta: answer_pb2.Delta) -> None:
        """Adds a piece."""
        self.texts[delta.choice_index].append(delta.text)
        if delta.logprobs:
            self.logprobs[delta.choice_index].extend(map(_token, delta.logprobs))

    def write(self, identity: Identity, end: Completed) -> bytes:
        """Returns the document."""
        reasons = _finish_reasons(end.finishes)
        choices = [
            {
                "index": n,
                "message": {"role": "assistant", "content": "".join(self.texts[n]), "refusal": None},
                "logprobs": {"content": self.logprobs[n], "refusal": None} if self.with_logprobs else None,
                "finish_reason": reasons.get(n),
            }
            for n in range(self.choice_count)
        ]
        return orjson.dumps(
            {
                "id": identity.id,
                "object": "chat.completion",
                "created": identity.created,
                "model": identity.model,
                "choices": choices,
                "usage": usage_of(end.usage),
                "system_fingerprint": identity.system_fingerprint,
            }
        )


class Chunks:
    """Writes the server-sent events of one streamed answer.

    What all chunks share is written once; a piece costs one JSON encoding of its text.
    """

    def __init__(self, identity: Identity, *, choice_count: int, include_usage: bool) -> None:
        head = orjson.dumps(
            {
                "id": identity.id,
                "object": "chat.completion.chunk",
                "created": identity.created,
                "model": identity.model,
                "system_fingerprint": identity.system_fingerprint,
            }
        )
        self._head = b"data: " + head[:-1] + b',"choices":['
        self._tail = b'],"usage":null}\n\n' if include_usage else b"]}\n\n"
        self._choice_count = choice_count
        self._include_usage = include_usage

    def begin(self) -> bytes:
        """Returns the first chunk of each choice, which names the role."""
        delta = b'"delta":{"role":"assistant","content":"","refusal":null},"logprobs":null,"finish_reason":null}'
        return b"".join(self._chunk(b'{"index":%d,%b' % (n, delta)) for n in range(self._choice_count))

    def piece(self, delta: answer_pb2.Delta) -> bytes:
        """Returns the chunk of a piece; empty where there is nothing to tell yet."""
        if not delta.text and not delta.logprobs:
            return b""
        logprobs = b"null"
        if delta.logprobs:
            logprobs = orjson.dumps({"content": [_token(token) for token in delta.logprobs], "refusal": None})
        return self._chunk(
            b'{"index":%d,"delta":{"content":%b},"logprobs":%b,"finish_reason":null}'
            % (delta.choice_index, orjson.dumps(delta.text), logprobs)
        )

    def end(self, end: Completed) -> bytes:
        """Returns the last chunk of each choice, the usage where it was asked for, and `[DONE]`."""
        parts = [
            self._chunk(b'{"index":%d,"delta":{},"logprobs":null,"finish_reason":"%b"}' % (n, reason.encode()))
            for n, reason in sorted(_finish_reasons(end.finishes).items())
        ]
        if self._include_usage:
            parts.append(self._head + b'],"usage":' + orjson.dumps(usage_of(end.usage)) + b"}\n\n")
        return b"".join((*parts, DONE))

    def _chunk(self, choice: bytes) -> bytes:
        return self._head + choice + self._tail


def failure_event(error: TiermeshError) -> bytes:
    """Returns the event that ends a stream which has failed; no `[DONE]` follows it."""
    return b"data: " + orjson.dumps(error_body(error)) + b"\n\n"


def usage_of(usage: answer_pb2.Usage) -> dict[str, Any]:
    """Returns token counts in OpenAI's shape."""
    return {
        "prompt_tokens": usage.prompt_token_count,
        "completion_tokens": usage.completion_token_count,
        "total_tokens": usage.prompt_token_count + usage.completion_token_count,
        "prompt_tokens_details": {"cached_tokens": usage.cached_prompt_token_count},
    }


def _finish_reasons(finishes: Iterable[answer_pb2.ChoiceFinish]) -> dict[int, str]:
    return {finish.choice_index: _FINISH.get(finish.finish_reason, "stop") for finish in finishes}


def _token(token: answer_pb2.TokenLogprob) -> dict[str, Any]:
    return {**_entry(token), "top_logprobs": [_entry(top) for top in token.top]}


def _entry(token: answer_pb2.TokenLogprob | answer_pb2.TopLogprob) -> dict[str, Any]:
    logprob = token.logprob if math.isfinite(token.logprob) else _NO_CHANCE
    return {"token": token.token, "logprob": logprob, "bytes": _bytes(token.token_bytes)}


def _bytes(raw: bytes) -> Sequence[int] | None:
    return list(raw) if raw else None
