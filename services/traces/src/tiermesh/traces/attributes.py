"""Attributes of an OTLP span as text."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from opentelemetry.proto.common.v1 import common_pb2
from opentelemetry.proto.trace.v1 import trace_pb2

LONGEST_TEXT = 4096
"""Characters of a value that are shown."""
_DEEPEST = 8


def read_attributes(span: trace_pb2.Span) -> Mapping[str, str]:
    """Returns the attributes of a span, long ones cut, and what its status says."""
    attributes = {item.key: as_text(item.value)[:LONGEST_TEXT] for item in span.attributes}
    if span.status.message:
        attributes["otel.status_description"] = span.status.message[:LONGEST_TEXT]
    return attributes


def cut_attributes(span: trace_pb2.Span) -> None:
    """Leaves of a span's attributes and its status no more than would be shown of them."""
    texts = {item.key: as_text(item.value)[:LONGEST_TEXT] for item in span.attributes}
    del span.attributes[:]
    span.attributes.extend(
        common_pb2.KeyValue(key=key, value=common_pb2.AnyValue(string_value=text)) for key, text in texts.items()
    )
    span.status.message = span.status.message[:LONGEST_TEXT]


def as_text(value: common_pb2.AnyValue) -> str:
    """Returns a value as text: strings as they are, everything else as JSON."""
    plain = _plain(value, 0)
    if isinstance(plain, str):
        return plain
    return "" if plain is None else json.dumps(plain, ensure_ascii=False)


def _plain(value: common_pb2.AnyValue, depth: int) -> Any:
    """Returns a value as JSON has it. Deep nesting is cut: it comes from outside and recursion has a limit."""
    which = value.WhichOneof("value")
    if which is None:
        return None
    if depth > _DEEPEST:
        return "…"
    if which == "array_value":
        return [_plain(item, depth + 1) for item in value.array_value.values]
    if which == "kvlist_value":
        return {item.key: _plain(item.value, depth + 1) for item in value.kvlist_value.values}
    if which == "bytes_value":
        return value.bytes_value.hex()
    return getattr(value, which)
