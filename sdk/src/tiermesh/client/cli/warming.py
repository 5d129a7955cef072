"""What `tiermesh cache warm` asks and when: pure, apart from the command."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from datetime import time

from tiermesh.api.common.v1 import chat_pb2
from tiermesh.api.router.v1 import router_pb2

_ROLES = {
    "system": chat_pb2.ROLE_SYSTEM,
    "user": chat_pb2.ROLE_USER,
    "assistant": chat_pb2.ROLE_ASSISTANT,
}


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
    """Reads one line of a log of questions: a JSON text, or an object with `messages` or `question`.

    Raises:
        WrongLine: it is neither.
    """
    try:
        row = json.loads(line)
    except ValueError:
        raise WrongLine("it is not JSON") from None
    if isinstance(row, str):
        row = {"question": row}
    if not isinstance(row, dict):
        raise WrongLine("it is neither a text nor an object")
    messages = row.get("messages") or [{"role": "user", "content": row.get("question")}]
    try:
        request = router_pb2.GenerateRequest(
            messages=[
                chat_pb2.Message(role=_ROLES[message["role"]], content=message["content"]) for message in messages
            ],
            model=row.get("model", ""),
            # Behind everything that somebody waits for.
            priority=chat_pb2.PRIORITY_BATCH,
        )
        for name in ("temperature", "top_p", "max_tokens", "seed"):
            if row.get(name) is not None:
                setattr(request.sampling, name, row[name])
    except (KeyError, TypeError, ValueError) as error:
        raise WrongLine(f"it has no usable messages ({error})") from None
    if not all(message.content for message in request.messages):
        raise WrongLine("a message is empty")
    return request


def mark_of(request: router_pb2.GenerateRequest) -> str:
    """Returns what stands for a question in the list of those that are done: a digest, no words."""
    return hashlib.sha256(request.SerializeToString(deterministic=True)).hexdigest()[:32]
