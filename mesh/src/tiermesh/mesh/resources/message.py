"""Writes protobuf messages the way Envoy's documentation does: as plain mappings, with `@type` for nested ones."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from typing import Any, TypeVar

from google.protobuf.json_format import MessageToDict, ParseDict
from google.protobuf.message import Message

M = TypeVar("M", bound=Message)


def make_message(kind: type[M], values: Mapping[str, Any]) -> M:
    """Returns a message of `kind` with the given values.

    Raises:
        google.protobuf.json_format.ParseError: a key or value does not fit the message.
    """
    return ParseDict(dict(values), kind())


def typed(kind: type[Message], values: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """Returns a mapping that becomes an `Any` holding a message of `kind`.

    Naming the class, not its URL, makes sure that its module is imported.
    """
    return {"@type": f"type.googleapis.com/{kind.DESCRIPTOR.full_name}", **(values or {})}


def content_version(message: Message) -> str:
    """Returns 16 hex digits that depend on the message's content alone.

    Bytes will not do: the order of maps inside an `Any` is not defined and differs between processes, so a restarted
    control plane would publish the same configuration under another version.
    """
    canonical = json.dumps(MessageToDict(message, preserving_proto_field_name=True), sort_keys=True)
    return hashlib.sha256(canonical.encode()).hexdigest()[:16]


def seconds(milliseconds: float) -> str:
    """Returns a duration as protobuf's JSON form writes it."""
    return f"{milliseconds / 1000:.3f}s"


def socket_address(host: str, port: int) -> dict[str, Any]:
    """Returns a TCP address."""
    return {"socket_address": {"address": host, "port_value": port}}
