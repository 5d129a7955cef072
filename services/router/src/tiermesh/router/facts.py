"""What the router itself knows of a request, without the classifier."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from tiermesh.api.common.v1 import chat_pb2
from tiermesh.api.router.v1 import router_pb2
from tiermesh.shared.rules.measure import TokenWeights, estimate_tokens, measure

_MESSAGE_TOKENS = 4
"""What a chat template puts around a message, about."""
_WEIGHTS = TokenWeights()


@dataclass(frozen=True, slots=True)
class RequestFacts:
    """What policy looks at, apart from the classification."""

    prompt_tokens: int
    """Length of all messages in tokens, by estimate."""
    max_tokens: int | None
    """Most tokens of one choice that the caller allows."""
    has_tool_history: bool
    wants_logprobs: bool
    priority: int = chat_pb2.PRIORITY_INTERACTIVE


def facts_of(request: router_pb2.GenerateRequest, *, prompt_tokens: int = 0) -> RequestFacts:
    """Returns the facts of a valid request.

    Args:
        request: The request.
        prompt_tokens: Length of all messages as the classifier estimates it; 0 where it has not said.
    """
    sampling = request.sampling
    return RequestFacts(
        prompt_tokens=prompt_tokens or _estimate(request.messages),
        max_tokens=sampling.max_tokens if sampling.HasField("max_tokens") else None,
        has_tool_history=any(m.tool_calls or m.role == chat_pb2.ROLE_TOOL for m in request.messages),
        wants_logprobs=sampling.logprobs,
        priority=request.priority,
    )


def _estimate(messages: Iterable[chat_pb2.Message]) -> int:
    total = 0
    for message in messages:
        total += _MESSAGE_TOKENS + estimate_tokens(measure(message.content), _WEIGHTS)
        for call in message.tool_calls:
            total += estimate_tokens(measure(call.name + call.arguments_json), _WEIGHTS)
    return total
