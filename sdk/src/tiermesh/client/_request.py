"""From what a person writes to a request of the contract."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Literal

from tiermesh.api.common.v1 import chat_pb2
from tiermesh.api.outcome.v1 import record_pb2
from tiermesh.api.router.v1 import router_pb2
from tiermesh.client._deadlines import Lane

_ROLES = {
    "system": chat_pb2.ROLE_SYSTEM,
    "developer": chat_pb2.ROLE_SYSTEM,
    "user": chat_pb2.ROLE_USER,
    "assistant": chat_pb2.ROLE_ASSISTANT,
    "tool": chat_pb2.ROLE_TOOL,
}

_SOURCES: dict[str, record_pb2.FeedbackSource.ValueType] = {
    "user": record_pb2.FEEDBACK_SOURCE_USER,
    "judge": record_pb2.FEEDBACK_SOURCE_JUDGE,
    "check": record_pb2.FEEDBACK_SOURCE_CHECK,
}
Source = Literal["user", "judge", "check"]
"""Who or what has an opinion on an answer."""
Prompt = str | Iterable[Mapping[str, str]] | router_pb2.GenerateRequest
"""A question; messages such as `{"role": "user", "content": "..."}`; or a whole request of the contract."""


def make_request(
    prompt: Prompt,
    *,
    model: str = "auto",
    system: str | None = None,
    cache: bool = True,
    batch: bool = False,
    progressive: bool = False,
    **sampling: Any,
) -> router_pb2.GenerateRequest:
    """Builds a request.

    Args:
        prompt: What is asked. A whole request is returned as it is, and takes no other argument.
        model: `auto`, `tier:NAME` or the identifier of a served model.
        system: Instructions put before the messages.
        cache: Whether the answer cache may be read and written.
        batch: Whether nobody waits for the answer.
        progressive: Whether a stronger tier's revision may follow the quick answer.
        sampling: Fields of `tiermesh.api.common.v1.Sampling`, such as `max_tokens=100`; those left out
            are the tier's own.

    Raises:
        ValueError: a role is unknown, a sampling field does not exist, or a whole request came with other arguments.
    """
    if isinstance(prompt, router_pb2.GenerateRequest):
        if (model, system, cache, batch, progressive, sampling) != ("auto", None, True, False, False, {}):
            raise ValueError("a whole request takes no further arguments; set them in the request")
        return prompt
    turns = [{"role": "user", "content": prompt}] if isinstance(prompt, str) else list(prompt)
    if system is not None:
        turns.insert(0, {"role": "system", "content": system})
    return router_pb2.GenerateRequest(
        model=model,
        messages=[_message(turn) for turn in turns],
        sampling=chat_pb2.Sampling(**sampling),
        cache_mode=router_pb2.CACHE_MODE_DEFAULT if cache else router_pb2.CACHE_MODE_OFF,
        priority=chat_pb2.PRIORITY_BATCH if batch else chat_pb2.PRIORITY_INTERACTIVE,
        progressive=progressive,
    )


def make_report(
    request_id: str,
    *,
    right: bool | None = None,
    score: float | None = None,
    source: Source = "user",
    judge: str = "",
) -> router_pb2.ReportOutcomeRequest:
    """Builds a report on an answer.

    Args:
        request_id: The answer's, from its label.
        right: Whether it was right.
        score: Or anything between wrong (0) and right (1).
        source: Who or what says so: `user`, `judge` (a model) or `check` (a program that can tell).
        judge: Name of the judge or check.

    Raises:
        ValueError: not exactly one of `right` and `score` is given, or the source is unknown.
    """
    if (right is None) == (score is None):
        raise ValueError("name exactly one: right, or a score from 0 to 1")
    if source not in _SOURCES:
        raise ValueError(f"source must be one of {', '.join(_SOURCES)}: {source!r}")
    report = router_pb2.ReportOutcomeRequest(request_id=request_id, source=_SOURCES[source], judge=judge)
    if right is not None:
        report.right = right
    elif score is not None:
        report.score = score
    return report


def lane_of(request: router_pb2.GenerateRequest, lane: Lane | None) -> Lane:
    """Returns the lane that was named, or the one that fits the request's priority."""
    if lane is not None:
        return lane
    return Lane.BATCH if request.priority == chat_pb2.PRIORITY_BATCH else Lane.COMPLEX


def _message(turn: Mapping[str, str]) -> chat_pb2.Message:
    role = _ROLES.get(turn.get("role", ""))
    if role is None:
        raise ValueError(f"a message's role must be one of {', '.join(_ROLES)}: {turn.get('role')!r}")
    return chat_pb2.Message(role=role, content=turn.get("content", ""), name=turn.get("name", ""))
