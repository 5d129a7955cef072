"""Requests as a release's callers send them: of every tier, half of them streamed, a fifth asked before."""

from __future__ import annotations

import asyncio
import itertools
from collections import Counter
from dataclasses import dataclass, field

import httpx
from harness.pods.cluster import KEY

_THINGS = ("rivers", "trees", "birds", "clouds", "houses", "boats", "gardens", "bridges", "stones", "lamps")
_TOKENS = 64


@dataclass
class Load:
    """What came of the requests."""

    seconds: float = 0.0
    answers: Counter[str] = field(default_factory=Counter)
    """By HTTP status, and by tier, `cache` for what was known."""

    @property
    def requests(self) -> int:
        """How many were answered."""
        return self.answers["200"]


def prompt(n: int) -> str:
    """Returns the `n`th prompt. Every fifth has been asked before; of ten others one is a greeting and two want code."""
    n -= n % 5 == 4
    thing = _THINGS[n % 10]
    match n % 10:
        case 0:
            return "Hello!"
        case 3:
            return f"Write a Python function that sorts {thing} by weight number {n}, in stable order."
        case 6:
            return f"写一个Python函数，把{n}个{thing}按重量排序。"
        case _:
            return f"Tell me something about {thing} and the town with number {n}."


async def send(address: str, *, seconds: float, in_flight: int, numbers: itertools.count[int]) -> Load:
    """Sends requests to an ingress for a while, the next as soon as one has ended."""
    loop, load = asyncio.get_running_loop(), Load()
    began = loop.time()
    limits = httpx.Limits(max_connections=in_flight)
    headers = {"Authorization": f"Bearer {KEY}"}
    async with httpx.AsyncClient(base_url=f"http://{address}", timeout=60, limits=limits, headers=headers) as client:

        async def work() -> None:
            while loop.time() - began < seconds:
                n = next(numbers)
                message = {"role": "user", "content": prompt(n)}
                asked = {"model": "auto", "messages": [message], "max_tokens": _TOKENS, "stream": n % 2 == 0}
                answer = await client.post("/v1/chat/completions", json=asked)
                load.answers[str(answer.status_code)] += 1
                is_hit = answer.headers.get("x-tiermesh-cache") == "hit"
                load.answers["cache" if is_hit else answer.headers.get("x-tiermesh-tier", "none")] += 1

        await asyncio.gather(*(work() for _ in range(in_flight)))
    load.seconds = loop.time() - began
    return load
