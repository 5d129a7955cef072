"""The canonical request: the same meaning gives the same bytes, another meaning gives other bytes.

What is made equal, because it cannot change an answer:

- Unicode composition (NFC) and line endings of every text, and white space at the very end of a message
- key order, spacing and escapes of the JSON in tool arguments
- the order of stop texts and repetitions among them; `-0.0` and `0.0`; one choice asked for or left unsaid

What is kept apart, because it may: everything else. An unset sampling value is not the tier's
default written out, since that default may change. When in doubt two requests differ: that costs
a miss, never a wrong answer.

Fields that vary without changing the answer (session, time of day, request ids) are taken out of the
messages before they come here (`tiermesh.shared.dynamic`); nothing in this module looks for them.
"""

from __future__ import annotations

import hashlib
import json
import unicodedata
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from tiermesh.api.common.v1 import chat_pb2

_FORMAT = "tiermesh-canonical-1"
_END_SPACE = " \t\n\u3000"
_OPTIONAL_FLOATS = ("temperature", "top_p", "presence_penalty", "frequency_penalty")
_OPTIONAL_INTS = ("max_tokens", "seed")


def canonical_bytes(
    messages: Iterable[chat_pb2.Message], sampling: chat_pb2.Sampling, *, scope: Mapping[str, str]
) -> bytes:
    """Returns the bytes that stand for a request.

    Args:
        messages: The conversation, oldest first.
        sampling: How tokens are chosen.
        scope: Whatever else the answer depends on, such as the tenant, the model asked for, and
            the version of the tiers.
    """
    document = [_FORMAT, sorted(scope.items()), [_message(message) for message in messages], _sampling(sampling)]
    return json.dumps(document, ensure_ascii=False, separators=(",", ":"), allow_nan=False).encode(
        "utf-8", "surrogatepass"
    )


def fingerprint(
    messages: Iterable[chat_pb2.Message], sampling: chat_pb2.Sampling, *, scope: Mapping[str, str]
) -> bytes:
    """Returns the SHA-256 of `canonical_bytes`, 32 bytes."""
    return hashlib.sha256(canonical_bytes(messages, sampling, scope=scope)).digest()


def canonical_text(text: str) -> str:
    """Returns a text composed to NFC, with line feeds as line endings."""
    if "\r" in text:
        text = text.replace("\r\n", "\n").replace("\r", "\n")
    return text if text.isascii() else unicodedata.normalize("NFC", text)


def canonical_json(text: str) -> tuple[str, str]:
    """Returns a pair that is equal for JSON texts of the same content.

    A text that is not JSON, that is nested too deeply, or whose meaning depends on the reader (a
    key given twice, NaN), stands for itself.
    """
    try:
        value = json.loads(text, parse_float=_Number, parse_constant=_refuse, object_pairs_hook=_without_repeated_keys)
        return "json", json.dumps(_tagged(value), ensure_ascii=False, separators=(",", ":"))
    except (ValueError, RecursionError):
        return "text", text


def canonical_messages(messages: Iterable[chat_pb2.Message]) -> Sequence[chat_pb2.Message]:
    """Returns a conversation as engines read it: messages of the same meaning have the same bytes.

    What an engine renders is then the same to the byte, so that its prefix cache finds it. A message that
    is canonical already is returned itself.
    """
    return [_canonical_message(message) for message in messages]


def canonical_json_text(text: str) -> str:
    """Returns a JSON text with sorted keys and without spacing; numbers stay as they were written.

    What `canonical_json` does not understand stays as it is.
    """
    try:
        value = json.loads(text, parse_float=_Number, parse_constant=_refuse, object_pairs_hook=_without_repeated_keys)
        return _written(value)
    except (ValueError, RecursionError):
        return text


def _canonical_message(message: chat_pb2.Message) -> chat_pb2.Message:
    content = canonical_text(message.content).rstrip(_END_SPACE)
    if message.content and not content:
        # Nothing but white space is still something, and no engine has to bear an empty message.
        content = " "
    name = canonical_text(message.name)
    calls = [canonical_json_text(call.arguments_json) for call in message.tool_calls]
    if (
        content == message.content
        and name == message.name
        and all(new == call.arguments_json for new, call in zip(calls, message.tool_calls, strict=True))
    ):
        return message
    copy = chat_pb2.Message()
    copy.CopyFrom(message)
    copy.content, copy.name = content, name
    for new, call in zip(calls, copy.tool_calls, strict=True):
        call.arguments_json = new
    return copy


def _written(value: Any) -> str:
    if isinstance(value, dict):
        return "{" + ",".join(f"{_quoted(key)}:{_written(value[key])}" for key in sorted(value)) + "}"
    if isinstance(value, list):
        return "[" + ",".join(map(_written, value)) + "]"
    if isinstance(value, _Number):
        return str(value)
    return _quoted(canonical_text(value)) if isinstance(value, str) else json.dumps(value)


def _quoted(text: str) -> str:
    # Half a surrogate pair, which JSON can say with an escape, has no UTF-8.
    return json.dumps(text, ensure_ascii=any("\ud800" <= character <= "\udfff" for character in text))


def _message(message: chat_pb2.Message) -> list[Any]:
    content = canonical_text(message.content).rstrip(_END_SPACE)
    if not (message.name or message.tool_calls or message.tool_call_id):
        return [message.role, content]
    calls = [(call.id, call.name, *canonical_json(call.arguments_json)) for call in message.tool_calls]
    return [message.role, content, canonical_text(message.name), message.tool_call_id, calls]


def _sampling(sampling: chat_pb2.Sampling) -> dict[str, Any]:
    # Every value is listed by hand: a field that is added to the contract without being added here
    # would let two different requests share an answer. A test compares this with the contract.
    known: dict[str, Any] = {}
    for name in _OPTIONAL_FLOATS:
        if sampling.HasField(name):  # type: ignore[arg-type]  # a literal type lists the names
            # Adding zero turns -0.0 into 0.0; NaN never passes validation.
            known[name] = getattr(sampling, name) + 0.0
    for name in _OPTIONAL_INTS:
        if sampling.HasField(name):  # type: ignore[arg-type]  # a literal type lists the names
            known[name] = getattr(sampling, name)
    if sampling.choice_count > 1:
        known["choice_count"] = sampling.choice_count
    if sampling.stop:
        known["stop"] = sorted(set(sampling.stop))
    if sampling.logprobs:
        known["logprobs"] = sampling.top_logprob_count
    return known


class _Number(str):
    """A fraction as it was written; floats would make different numbers equal."""

    __slots__ = ()


def _refuse(name: str) -> Any:
    raise ValueError(f"{name} is not JSON")


def _without_repeated_keys(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = {canonical_text(key): value for key, value in pairs}
    if len(found) != len(pairs):
        raise ValueError("a key is given twice")
    return found


def _tagged(value: Any) -> Any:
    # Texts carry a tag, so that no text can look like a number kept as text, and objects become
    # sorted pairs, so that none can look like a list.
    if isinstance(value, dict):
        return {"o": [[key, _tagged(value[key])] for key in sorted(value)]}
    if isinstance(value, list):
        return [_tagged(item) for item in value]
    if isinstance(value, _Number):
        return "n" + value
    if isinstance(value, str):
        return "s" + canonical_text(value)
    return value
