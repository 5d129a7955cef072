"""Where a request's answer lies in the cache: under the request itself, and under its question."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from opentelemetry.trace import SpanContext
from tiermesh.api.cache.v1 import cache_pb2
from tiermesh.api.common.v1 import chat_pb2
from tiermesh.router.call import Call
from tiermesh.router.coalescing.claim import Claim
from tiermesh.router.policy.models import AUTO
from tiermesh.shared.canonical import fingerprint
from tiermesh.shared.config import DynamicField
from tiermesh.shared.dynamic import key_messages, split

MAX_QUESTION_CHARS = 1000
"""Longer questions go to the exact tier alone: nothing that long is ever compared, and it would only be carried."""


@dataclass(frozen=True, slots=True)
class CachePlace:
    """What an answer is looked up and kept by."""

    key: cache_pb2.CacheKey
    semantic: cache_pb2.SemanticQuery | None = None
    """The question apart from its partition; None where only the very same request may have the answer."""
    token: bytes = b""
    """What the lookup handed out: an invalidation since then keeps the answer from being stored."""
    claim: Claim | None = None
    """The wish to run it for all routers; None where that is not shared."""


@dataclass(frozen=True, slots=True)
class Keeping:
    """An answer on its way to its place."""

    place: CachePlace
    answer: cache_pb2.CachedAnswer
    span: SpanContext
    """Of the request that was answered."""


def cache_key(call: Call) -> cache_pb2.CacheKey:
    """Returns what the exact tier files a request under."""
    dynamic = call.snapshot.config.dynamic_fields
    messages = key_messages(call.request.messages, dynamic) if dynamic else call.request.messages
    return cache_pb2.CacheKey(
        tenant=call.caller.tenant, fingerprint=fingerprint(messages, call.request.sampling, scope=_scope(call))
    )


def cache_place(call: Call) -> CachePlace:
    """Returns a request's place; with its question where the semantic tier is on and may be asked."""
    return CachePlace(cache_key(call), _question(call) if call.snapshot.config.cache.semantic_enabled else None)


def _question(call: Call) -> cache_pb2.SemanticQuery | None:
    messages, dynamic = call.request.messages, call.snapshot.config.dynamic_fields
    last = messages[-1]
    if last.role != chat_pb2.ROLE_USER or any(_is_tool_use(message) for message in messages):
        return None
    text, kept = _taken_apart(last.content, dynamic)
    if not text.strip() or len(text) > MAX_QUESTION_CHARS:
        return None
    earlier = key_messages(messages[:-1], dynamic) if dynamic else messages[:-1]
    # The last message without its question: who speaks, and the dynamic parts that the answer depends on.
    rest = chat_pb2.Message(role=last.role, name=last.name, content=kept)
    partition = fingerprint([*earlier, rest], call.request.sampling, scope=_scope(call))
    return cache_pb2.SemanticQuery(partition=partition, text=text)


def _taken_apart(content: str, dynamic: Sequence[DynamicField]) -> tuple[str, str]:
    """Returns a message's question, and what else of it the answer depends on."""
    if not dynamic:
        return content, ""
    parts = split(content, dynamic)
    return parts.stable, "\n".join(part for field, part in parts.moved if field.answer_depends)


def _is_tool_use(message: chat_pb2.Message) -> bool:
    return message.role == chat_pb2.ROLE_TOOL or bool(message.tool_calls or message.tool_call_id)


def _scope(call: Call) -> dict[str, str]:
    return {
        "tenant": call.caller.tenant,
        "model": call.request.model or AUTO,
        "version": call.snapshot.answers_version,
    }
