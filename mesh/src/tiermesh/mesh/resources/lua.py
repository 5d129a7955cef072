"""Lua filters: OpenAI-shaped errors, bodies that are too large, and the deadline that services see."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import cache
from importlib import resources
from typing import Any

from envoy.extensions.filters.http.lua.v3 import lua_pb2
from tiermesh.mesh.resources.message import typed
from tiermesh.shared.config import DeadlineConfig, LimitsConfig
from tiermesh.shared.errors import ERROR_TABLE

DEADLINE_FILTER, SIZE_FILTER = "tiermesh.deadline", "tiermesh.size"

# Statuses that Envoy answers with, and the reason of the error table that says the same.
_REASON_OF_STATUS = {
    400: "INVALID_REQUEST",
    401: "UNAUTHENTICATED",
    403: "TENANT_FORBIDDEN",
    429: "RATE_LIMITED",
    500: "INTERNAL",
    503: "UNAVAILABLE",
    504: "BUDGET_EXHAUSTED",
}
# Statuses that only HTTP has: code and advice.
_HTTP_ONLY = {
    404: ("UNKNOWN_PATH", "There is nothing at this path; the API is at /v1/chat/completions, /v1/models, /v1/generate, /v1/explain and /v1/feedback."),
    405: ("WRONG_METHOD", "This path does not take this HTTP method."),
    408: ("REQUEST_TIMEOUT", "The request did not arrive in time."),
    413: ("REQUEST_TOO_LARGE", "The request body is larger than limits.max_request_bytes allows."),
    415: ("WRONG_CONTENT_TYPE", "Send the body as application/json."),
    431: ("HEADERS_TOO_LARGE", "The request headers are too large."),
}  # fmt: skip


def error_rows() -> Mapping[int, tuple[str, str, str]]:
    """Returns HTTP status to (OpenAI error type, code, message) for failures that Envoy itself answers."""
    rows = {
        status: (ERROR_TABLE[reason].openai_type, reason, f"{ERROR_TABLE[reason].meaning} {ERROR_TABLE[reason].advice}")
        for status, reason in _REASON_OF_STATUS.items()
    }
    rows |= {status: ("invalid_request_error", code, advice) for status, (code, advice) in _HTTP_ONLY.items()}
    return rows


def make_errors_filter() -> dict[str, Any]:
    """Returns the filter that shapes errors. It must come before the transcoder, so that it sees its responses."""
    rows = ", ".join(f"[{status}] = {{{_strings(row)}}}" for status, row in sorted(error_rows().items()))
    return _filter("tiermesh.errors", f"local ROWS = {{{rows}}}\n{_source('errors.lua')}")


def make_size_filter() -> dict[str, Any]:
    """Returns the filter that refuses large bodies. It must come after authentication, as it holds them in memory."""
    return _filter(SIZE_FILTER, _source("size.lua"))


def make_size_numbers(limits: LimitsConfig) -> dict[str, Any]:
    """Returns the routes' part of the size filter."""
    return typed(lua_pb2.LuaPerRoute, {"filter_context": {"max_request_bytes": limits.max_request_bytes}})


def make_deadline_filter() -> dict[str, Any]:
    """Returns the filter that hands the deadline on. It must come after the transcoder; numbers come with the routes."""
    return _filter(DEADLINE_FILTER, _source("deadline.lua"))


def make_deadline_numbers(deadlines: DeadlineConfig) -> dict[str, Any]:
    """Returns the routes' part of the deadline filter."""
    context = {
        "default_ms": deadlines.default_ms,
        "max_ms": deadlines.max_ms,
        "offset_ms": deadlines.offset_ms,
    }
    return typed(lua_pb2.LuaPerRoute, {"filter_context": context})


def _filter(name: str, code: str) -> dict[str, Any]:
    return {
        "name": name,
        "typed_config": typed(
            lua_pb2.Lua,
            {
                "default_source_code": {"inline_string": code},
                # No script changes where a request goes. Choosing the route again would also restart Envoy's own
                # deadline timer, with the shortened deadline that is meant for services.
                "clear_route_cache": False,
            },
        ),
    }


@cache
def _source(name: str) -> str:
    return resources.files(__package__).joinpath(name).read_text(encoding="utf-8")


def _strings(values: Iterable[str]) -> str:
    return ", ".join('"' + value.replace("\\", "\\\\").replace('"', '\\"') + '"' for value in values)
