"""Makes a request of what was typed."""

from __future__ import annotations

import sys

import typer
from tiermesh.api.common.v1 import chat_pb2
from tiermesh.api.router.v1 import router_pb2


def read_prompt(text: str) -> str:
    """Returns the prompt; `-` reads it from standard input.

    Raises:
        typer.BadParameter: it is empty.
    """
    prompt = sys.stdin.read() if text == "-" else text
    if not prompt.strip():
        raise typer.BadParameter("the prompt is empty")
    return prompt


def make_request(
    prompt: str, *, model: str, system: str | None = None, max_tokens: int | None = None, no_cache: bool = False
) -> router_pb2.GenerateRequest:
    """Returns the request for a prompt."""
    messages = [chat_pb2.Message(role=chat_pb2.ROLE_USER, content=prompt)]
    if system:
        messages.insert(0, chat_pb2.Message(role=chat_pb2.ROLE_SYSTEM, content=system))
    return router_pb2.GenerateRequest(
        model=model,
        messages=messages,
        sampling=chat_pb2.Sampling(max_tokens=max_tokens),
        cache_mode=router_pb2.CACHE_MODE_OFF if no_cache else router_pb2.CACHE_MODE_DEFAULT,
    )
