"""Errors as OpenAI's clients expect them."""

from __future__ import annotations

import json
from typing import Any

from tiermesh.api.openai.v1 import openai_pb2
from tiermesh.shared import headers
from tiermesh.shared.errors import TiermeshError

SERVICE = openai_pb2.DESCRIPTOR.services_by_name["OpenAIService"].full_name
_METHODS = f"/{SERVICE}/"
_MESSAGE_CHARS = 1000
"""Header fields have limits; bodies written from them keep within those."""


def error_body(error: TiermeshError) -> dict[str, Any]:
    """Returns an error as the JSON object `{"error": {...}}`; `code` is the mesh's reason."""
    message = error.message if len(error.message) <= _MESSAGE_CHARS else error.message[:_MESSAGE_CHARS] + "…"
    return {
        "error": {
            "message": message,
            "type": error.row.openai_type,
            "param": error.field or None,
            "code": error.reason,
        }
    }


def openai_trailers(method: str, error: TiermeshError) -> tuple[tuple[str, str | bytes], ...]:
    """Returns the trailing metadata from which Envoy makes the body of a failed HTTP request."""
    if not method.startswith(_METHODS):
        return ()
    # Header values are ASCII; JSON's own escapes carry the rest.
    return ((headers.OPENAI_ERROR, json.dumps(error_body(error))),)
