"""Errors as OpenAI's clients expect them."""

from __future__ import annotations

import json
from typing import Any

from tiermesh.api.openai.v1 import openai_pb2
from tiermesh.shared import headers
from tiermesh.shared.errors import TiermeshError

SERVICE = openai_pb2.DESCRIPTOR.services_by_name["OpenAIService"].full_name
_METHODS = f"/{SERVICE}/"
_ASCII_CHARS, _OTHER_CHARS = 1500, 250
"""Longest messages: gRPC drops metadata beyond 8 KiB, and JSON's escapes take 6 bytes a character."""


def error_body(error: TiermeshError) -> dict[str, Any]:
    """Returns an error as the JSON object `{"error": {...}}`; `code` is the mesh's reason."""
    limit = _ASCII_CHARS if error.message.isascii() else _OTHER_CHARS
    message = error.message if len(error.message) <= limit else error.message[:limit] + "…"
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
