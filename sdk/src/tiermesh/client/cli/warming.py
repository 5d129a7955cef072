"""What `tiermesh cache warm` asks and when: pure, apart from the command."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from datetime import time
from typing import Any

from tiermesh.api.common.v1 import chat_pb2
from tiermesh.api.router.v1 import router_pb2

_ROLES = {
    "system": chat_pb2.ROLE_SYSTEM,
    "developer": chat_pb2.ROLE_SYSTEM,
    "user": chat_pb2.ROLE_USER,
    "assistant": chat_pb2.ROLE_ASSISTANT,
}
_SAMPLING = {
    "temperature": "temperature",
    "top_p": "top_p",
    "max_tokens": "max_tokens",
    "max_completion_tokens": "max_tokens",
    "seed": "seed",
    "presence_penalty": "presence_penalty",
    "frequency_penalty": "frequency_penalty",
    "n": "choice_count",
}
"""Parameters of chat completions, and what they are called in the typed API."""
_NO_MATTER = frozenset(
    {"stream", "stream_options", "user", "metadata", "safety_identifier", "prompt_cache_key", "store"}
)
"""Parameters that change no answer, and so are no part of what the cache files it under."""
_KNOWN = frozenset({"question", "messages", "model", "stop", *_SAMPLING, *_NO_MATTER})


class WrongLine(ValueError):
    """A line of the log is no question; the message says why."""


@dataclass(frozen=True, slots=True)
class Window:
    """Hours of the day in which warming may run; may span midnight."""

    begin: time
    end: time

    def holds(self, now: time) -> bool:
        """Tells whether a time of day lies within; the end does not."""
        if self.begin <= self.end:
            return self.begin <= now < self.end
        return now >= self.begin or now < self.end


def parse_window(text: str) -> Window:
    """Reads `HH:MM-HH:MM`.

    Raises:
        ValueError: it is not of that form.
    """
    begin, _, end = text.partition("-")
    try:
        return Window(time.fromisoformat(begin.strip()), time.fromisoformat(end.strip()))
    except ValueError:
        raise ValueError(f"{text!r} is no window; write it like 01:00-05:30") from None


def parse_line(line: str) -> router_pb2.GenerateRequest:
    """Reads one line of a log of questions: a JSON text, an object with a `question`, or the body of a chat completion.

    What is not known is refused, not left out: an answer is filed under everything that it depends on, and one to another
    request would be found by nobody.

    Raises:
        WrongLine: it is neither, or asks for something that is not cached.
    """
    try:
        row = json.loads(line)
    except ValueError:
        raise WrongLine("it is not JSON") from None
    if isinstance(row, str):
        row = {"question": row}
    if not isinstance(row, dict):
        raise WrongLine("it is neither a text nor an object")
    row = {name: value for name, value in row.items() if value is not None}
    if unknown := sorted(row.keys() - _KNOWN):
        raise WrongLine(f"{unknown[0]!r} is not known here; leave it out")
    messages = row.get("messages") or [{"role": "user", "content": row.get("question")}]
    try:
        request = router_pb2.GenerateRequest(
            messages=[_message(message) for message in messages],
            model=row.get("model", ""),
            # Behind everything that somebody waits for.
            priority=chat_pb2.PRIORITY_BATCH,
        )
        for name, field in _SAMPLING.items():
            if name in row:
                setattr(request.sampling, field, row[name])
        stop = row.get("stop", [])
        request.sampling.stop.extend([stop] if isinstance(stop, str) else stop)
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise WrongLine(f"it has no usable messages or parameters ({error})") from None
    if not all(message.content for message in request.messages):
        raise WrongLine("a message is empty")
    return request


def _message(message: dict[str, Any]) -> chat_pb2.Message:
    if message.get("role") == "tool" or message.get("tool_calls"):
        raise WrongLine("conversations with tools are not cached")
    content = message["content"]
    if isinstance(content, list):
        content = "".join(part["text"] for part in content)
    return chat_pb2.Message(role=_ROLES[message["role"]], content=content, name=message.get("name") or "")


def mark_of(request: router_pb2.GenerateRequest) -> str:
    """Returns what stands for a question in the list of those that are done: a digest, no words."""
    return hashlib.sha256(request.SerializeToString(deterministic=True)).hexdigest()[:32]
