"""Reads the messages of a chat completion request.

Roles: `system` and `developer` are the same; `user`, `assistant` and `tool` are themselves. Content
is a string or a list of text parts, which are joined as they are. What a model's earlier message
carries beyond text (`refusal`, `annotations`, an empty `audio` or `function_call`) is accepted, so
that answers can be sent back as they came.
"""

from __future__ import annotations

from typing import Any

from tiermesh.api.common.v1 import chat_pb2
from tiermesh.router.openai import fields
from tiermesh.router.validation import check_messages, invalid

_ROLES = {
    "system": chat_pb2.ROLE_SYSTEM,
    "developer": chat_pb2.ROLE_SYSTEM,
    "user": chat_pb2.ROLE_USER,
    "assistant": chat_pb2.ROLE_ASSISTANT,
    "tool": chat_pb2.ROLE_TOOL,
}
_KNOWN = {"role", "content", "name"}
_KNOWN_BY_ROLE = {
    "assistant": _KNOWN | {"refusal", "annotations", "audio", "function_call", "tool_calls"},
    "tool": _KNOWN | {"tool_call_id"},
}
_TEXT_PARTS = {"text": "text", "refusal": "refusal"}
"""Part type to the key that holds its text."""


def read_messages(value: Any) -> list[chat_pb2.Message]:
    """Returns the conversation.

    Raises:
        InvalidRequest: the message begins with the field at fault, such as `messages[0].role`.
    """
    items = fields.array("messages", value)
    messages = [_message(f"messages[{n}]", item) for n, item in enumerate(items)]
    check_messages(messages)
    return messages


def _message(at: str, item: Any) -> chat_pb2.Message:
    if not isinstance(item, dict):
        raise invalid(at, f"must be an object, not {fields.kind_of(item)}")
    role = item.get("role")
    if role is None:
        raise invalid(f"{at}.role", "is required")
    if role == "function":
        raise invalid(f"{at}.role", "function is not supported; use tool")
    if not isinstance(role, str) or role not in _ROLES:
        got = fields.shown(role) if isinstance(role, str) else fields.kind_of(role)
        raise invalid(f"{at}.role", f"must be one of {', '.join(_ROLES)}, not {got}")
    fields.mapping(at, item, known=_KNOWN_BY_ROLE.get(role, _KNOWN))
    message = chat_pb2.Message(role=_ROLES[role], content=_content(f"{at}.content", item.get("content")))
    if item.get("name") is not None:
        message.name = fields.text(f"{at}.name", item["name"])
    if role == "tool" and item.get("tool_call_id") is not None:
        message.tool_call_id = fields.text(f"{at}.tool_call_id", item["tool_call_id"])
    if role == "assistant":
        _assistant(at, item, message)
    return message


def _content(at: str, value: Any) -> str:
    if isinstance(value, str):
        return value
    if value is None:
        # Whether a message may be without content is judged with the whole message.
        return ""
    if not isinstance(value, list):
        raise invalid(at, f"must be a string or an array of parts, not {fields.kind_of(value)}")
    return "".join(_part(f"{at}[{n}]", part) for n, part in enumerate(value))


def _part(at: str, part: Any) -> str:
    kind = fields.mapping(at, part).get("type")
    if kind is None:
        raise invalid(f"{at}.type", "is required")
    kind = fields.text(f"{at}.type", kind)
    key = _TEXT_PARTS.get(kind)
    if key is None:
        raise invalid(f"{at}.type", f"{fields.shown(kind)} is not supported; only text is")
    fields.mapping(at, part, known={"type", key})
    if key not in part:
        raise invalid(f"{at}.{key}", "is required")
    return fields.text(f"{at}.{key}", part[key])


def _assistant(at: str, item: dict[str, Any], message: chat_pb2.Message) -> None:
    for key in ("audio", "function_call"):
        if item.get(key) is not None:
            raise invalid(f"{at}.{key}", "is not supported")
    if item.get("refusal") is not None and not message.content:
        message.content = fields.text(f"{at}.refusal", item["refusal"])
    calls = item.get("tool_calls")
    if calls is None:
        return
    for n, call in enumerate(fields.array(f"{at}.tool_calls", calls)):
        here = f"{at}.tool_calls[{n}]"
        fields.mapping(here, call, known={"id", "type", "function"})
        if call.get("type", "function") != "function":
            raise invalid(f"{here}.type", "must be function")
        function = fields.mapping(f"{here}.function", call.get("function"), known={"name", "arguments"})
        name = fields.text(f"{here}.function.name", function.get("name"))
        if not name:
            raise invalid(f"{here}.function.name", "must not be empty")
        message.tool_calls.add(
            id=fields.text(f"{here}.id", call.get("id")),
            name=name,
            arguments_json=fields.text(f"{here}.function.arguments", function.get("arguments")),
        )
