"""What makes a request invalid, whichever door it came through."""

from __future__ import annotations

from collections.abc import Sequence

from tiermesh.api.common.v1 import chat_pb2
from tiermesh.api.router.v1 import router_pb2
from tiermesh.shared.errors import InvalidRequest

MAX_STOPS = 4
MAX_CHOICES = 8
MAX_TOP_LOGPROBS = 20
INT32_MAX = 2**31 - 1
FLOAT_RANGES = {"temperature": (0.0, 2.0), "presence_penalty": (-2.0, 2.0), "frequency_penalty": (-2.0, 2.0)}
"""Inclusive ranges of sampling values that both doors name alike."""

_ROLES = frozenset({chat_pb2.ROLE_SYSTEM, chat_pb2.ROLE_USER, chat_pb2.ROLE_ASSISTANT, chat_pb2.ROLE_TOOL})
_MODEL_CHARS = 256


def invalid(field: str, problem: str) -> InvalidRequest:
    """Returns the error for a field; its message begins with the field's name."""
    return InvalidRequest(f"{field}: {problem}", field=field)


def check_range(field: str, value: float, low: float, high: float) -> None:
    """Refuses a value outside `low` to `high`, both included, and NaN.

    Raises:
        InvalidRequest: the value is outside.
    """
    if not low <= value <= high:
        raise invalid(field, f"must be from {low:.15g} to {high:.15g}, not {value:.15g}")


def check_top_p(field: str, value: float) -> None:
    """Refuses a nucleus mass that is not above 0 and at most 1.

    Raises:
        InvalidRequest: the value is outside.
    """
    if not 0 < value <= 1:
        raise invalid(field, f"must be above 0 and at most 1, not {value:g}")


def check_stops(field: str, stops: Sequence[str]) -> None:
    """Refuses more than `MAX_STOPS` stop texts, and empty ones.

    Raises:
        InvalidRequest: there are too many, or one is empty.
    """
    if len(stops) > MAX_STOPS:
        raise invalid(field, f"at most {MAX_STOPS} stop texts are allowed, not {len(stops)}")
    for n, stop in enumerate(stops):
        if not stop:
            raise invalid(f"{field}[{n}]", "must not be empty")


def check_messages(messages: Sequence[chat_pb2.Message]) -> None:
    """Refuses conversations that no engine can continue.

    Raises:
        InvalidRequest: there are no messages, or one of them is incomplete or out of place.
    """
    if not messages:
        raise invalid("messages", "at least one message is required")
    for n, message in enumerate(messages):
        at = f"messages[{n}]"
        if message.role not in _ROLES:
            raise invalid(f"{at}.role", "must be set to one of system, user, assistant, tool")
        if not message.content and not message.tool_calls:
            raise invalid(f"{at}.content", "must not be empty")
        if message.tool_calls and message.role != chat_pb2.ROLE_ASSISTANT:
            raise invalid(f"{at}.tool_calls", "only messages of the assistant may have tool calls")
        for m, call in enumerate(message.tool_calls):
            if not call.name:
                raise invalid(f"{at}.tool_calls[{m}].name", "must not be empty")
        if message.role == chat_pb2.ROLE_TOOL and not message.tool_call_id:
            raise invalid(f"{at}.tool_call_id", "is required for messages of a tool")
        if message.tool_call_id and message.role != chat_pb2.ROLE_TOOL:
            raise invalid(f"{at}.tool_call_id", "is only for messages of a tool")
    if messages[-1].role == chat_pb2.ROLE_ASSISTANT:
        raise invalid(f"messages[{len(messages) - 1}].role", "the last message must not be the assistant's")


def check_request(request: router_pb2.GenerateRequest) -> None:
    """Refuses an invalid request of the typed API.

    Raises:
        InvalidRequest: the message begins with the field at fault.
    """
    if len(request.model) > _MODEL_CHARS:
        raise invalid("model", f"at most {_MODEL_CHARS} characters are allowed")
    check_messages(request.messages)
    _check_sampling(request.sampling)
    if request.cache_mode not in router_pb2.CacheMode.values():
        raise invalid("cache_mode", f"{request.cache_mode} is not known")
    if request.priority not in chat_pb2.Priority.values():
        raise invalid("priority", f"{request.priority} is not known")


def _check_sampling(sampling: chat_pb2.Sampling) -> None:
    for name, (low, high) in FLOAT_RANGES.items():
        # Unset values read as 0, which is within every range.
        check_range(f"sampling.{name}", getattr(sampling, name), low, high)
    if sampling.HasField("top_p"):
        check_top_p("sampling.top_p", sampling.top_p)
    if sampling.HasField("max_tokens"):
        check_range("sampling.max_tokens", sampling.max_tokens, 1, INT32_MAX)
    if sampling.HasField("choice_count"):
        check_range("sampling.choice_count", sampling.choice_count, 1, MAX_CHOICES)
    check_stops("sampling.stop", sampling.stop)
    check_range("sampling.top_logprob_count", sampling.top_logprob_count, 0, MAX_TOP_LOGPROBS)
    if sampling.top_logprob_count and not sampling.logprobs:
        raise invalid("sampling.top_logprob_count", "needs logprobs to be true")
