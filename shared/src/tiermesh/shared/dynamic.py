"""Dynamic fields: what changes with every request and says nothing about the question.

A session number or the time of day at the head of a prompt keeps an engine from finding the rest of
it in its prefix cache, and every request from finding an earlier one's answer. So the parts of a
message that the configuration declares as dynamic are moved to the end of that message, behind a
delimiter, in a fixed order; what is left in front is the same for every request. Where the
configuration says that the answer does not depend on a field, the cache's key goes without it.

Only what is declared is moved, and never out of its message: an engine still reads every word.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache

from tiermesh.api.common.v1 import chat_pb2
from tiermesh.shared.canonical import canonical_text
from tiermesh.shared.config import DynamicField

DELIMITER = "\n\n--- request ---\n"
"""Stands between the stable and the dynamic part of a message."""


@dataclass(frozen=True, slots=True)
class Split:
    """A text, taken apart."""

    stable: str
    """What is left once dynamic parts have been taken out, without empty lines at either end."""
    moved: tuple[tuple[DynamicField, str], ...]
    """Each dynamic part with its field, by field in the order of the configuration, then in that of the text."""

    def for_engine(self) -> str:
        """Returns the text as an engine reads it."""
        if not self.moved:
            return self.stable
        return self.stable + DELIMITER + "\n".join(part for _, part in self.moved)

    def for_key(self) -> str:
        """Returns the text as the cache's key knows it: without what the answer does not depend on."""
        kept = "\n".join(part for field, part in self.moved if field.answer_depends)
        return self.stable + DELIMITER + kept if kept else self.stable


def split(text: str, fields: Sequence[DynamicField]) -> Split:
    """Takes the dynamic parts out of a text, in its canonical form. A text without any is returned as it is."""
    moved: list[tuple[DynamicField, str]] = []
    rest = canonical_text(text)
    for field in fields:
        parts: list[str] = []

        def take(match: re.Match[str], parts: list[str] = parts) -> str:
            parts.append(match.group().strip())
            return ""

        rest = _pattern(field).sub(take, rest)
        moved += [(field, part) for part in parts if part]
    if not moved:
        return Split(text, ())
    return Split(rest.strip("\n"), tuple(moved))


def engine_messages(messages: Iterable[chat_pb2.Message], fields: Sequence[DynamicField]) -> Sequence[chat_pb2.Message]:
    """Returns a conversation as engines read it; the very messages where nothing is declared or found."""
    return [_changed(message, split(message.content, fields).for_engine()) for message in messages]


def key_messages(messages: Iterable[chat_pb2.Message], fields: Sequence[DynamicField]) -> Sequence[chat_pb2.Message]:
    """Returns a conversation as the cache's key knows it."""
    return [_changed(message, split(message.content, fields).for_key()) for message in messages]


def _changed(message: chat_pb2.Message, content: str) -> chat_pb2.Message:
    if content == message.content:
        return message
    copy = chat_pb2.Message()
    copy.CopyFrom(message)
    copy.content = content
    return copy


@lru_cache(maxsize=256)
def _pattern(field: DynamicField) -> re.Pattern[str]:
    if field.pattern is not None:
        return re.compile(field.pattern, re.MULTILINE)
    # A whole line such as `Session ID: 4711` or `会话编号：4711`, its line feed included.
    labels = "|".join(r"[ _-]?".join(map(re.escape, label.split())) for label in field.labels)
    return re.compile(rf"^[ \t]*(?:{labels})[ \t]*[:：=][ \t]*\S[^\n]*(?:\n|\Z)", re.MULTILINE | re.IGNORECASE)
