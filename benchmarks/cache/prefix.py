"""Hit rate of a real engine's own prefix cache, with and without dynamic fields moved behind the shared prefix.

Questions over knowledge snippets, each prompt beginning with a fresh session number and the time, as applications write
them. Both ways the same prompts go to the same engine, in the same order; once as they are, once as the router hands
them on. The figures are vLLM's own counters, as the engine reports them (`WatchLoad`).
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Sequence
from contextlib import aclosing
from typing import Any

from harness.eventually import eventually
from opentelemetry.trace import NoOpTracer
from tiermesh.api.common.v1 import chat_pb2
from tiermesh.api.engine.v1 import engine_pb2, engine_pb2_grpc
from tiermesh.shared.budget import Budget
from tiermesh.shared.canonical import canonical_messages
from tiermesh.shared.config import DynamicField
from tiermesh.shared.dynamic import engine_messages
from tiermesh.shared.rpc import call_stream, open_channel

FIELDS = (
    DynamicField(name="session", labels=("session id", "会话编号"), answer_depends=False),
    DynamicField(name="time", labels=("current time", "当前时间"), answer_depends=False),
)
"""As a configuration declares them."""
QUESTIONS_A_SNIPPET = 20
_THINGS = ("kettle", "lamp", "bicycle", "printer", "heater", "camera", "drill", "clock", "scale", "fan")
_MAKERS = ("Norvane", "Quillet", "Osterby", "Talmere", "Fenwick")
_ASPECTS = (
    "price", "weight", "colour", "warranty", "height", "power", "origin", "maker", "battery", "noise", "cable", "case",
    "manual", "delivery", "returns", "repair", "spare parts", "temperature", "material", "age",
)  # fmt: skip
_TURNS = 4
"""Prompts that are with the engine at once."""


def make_prompts(snippets: int, *, seed: int = 7) -> list[list[chat_pb2.Message]]:
    """Returns the prompts, shuffled: `QUESTIONS_A_SNIPPET` for each snippet."""
    rng = random.Random(seed)
    texts = [snippet(rng, number) for number in range(snippets)]
    asked = [(text, aspect) for text in texts for aspect in _ASPECTS[:QUESTIONS_A_SNIPPET]]
    rng.shuffle(asked)
    return [_prompt(rng, number, text, aspect) for number, (text, aspect) in enumerate(asked)]


def snippet(rng: random.Random, number: int) -> str:
    """Returns a made-up product page of about two hundred tokens."""
    name = f"{_MAKERS[number % 5]} {_THINGS[number // 5 % 10]} {rng.randint(100, 999)}"
    return (
        f"The {name} was first sold in {rng.randint(1990, 2024)} and costs {rng.randint(20, 900)} euros. "
        f"It weighs {rng.randint(1, 40)} kilograms, is {rng.randint(10, 200)} centimetres high and comes in "
        f"{rng.choice(('red', 'blue', 'green', 'black'))} or white. Its warranty lasts {rng.randint(1, 10)} years and "
        f"covers every part but the cable, which is {rng.randint(1, 5)} metres long. In normal use it takes "
        f"{rng.randint(5, 2000)} watts and is as loud as {rng.randint(20, 70)} decibels. The case is made of "
        f"{rng.choice(('steel', 'oak', 'aluminium'))}, bears up to {rng.randint(40, 120)} degrees, and can be opened with "
        f"{rng.randint(2, 9)} screws. Spare parts are kept for {rng.randint(5, 25)} years; a repair takes "
        f"{rng.randint(2, 30)} days and begins at {rng.randint(10, 90)} euros. It is delivered within {rng.randint(1, 9)} "
        f"days and may be sent back within {rng.randint(10, 100)} days, in its box and with the manual of "
        f"{rng.randint(10, 300)} pages."
    )


async def hit_rates(target: str, prompts: Sequence[Sequence[chat_pb2.Message]]) -> dict[str, Any]:
    """Asks all prompts both ways; returns the share of prompt tokens found in the prefix cache, and their number.

    Args:
        target: A vLLM engine that nobody else uses.
        prompts: What is asked.
    """
    async with open_channel(target) as channel:
        stub = engine_pb2_grpc.EngineServiceStub(channel)
        raw = await _one_way(stub, prompts)
        normalised = await _one_way(stub, [canonical_messages(engine_messages(prompt, FIELDS)) for prompt in prompts])
    return {
        "raw": round(raw[1] / raw[0], 4),
        "normalised": round(normalised[1] / normalised[0], 4),
        "prompts": len(prompts),
        "prompt_tokens": {"raw": raw[0], "normalised": normalised[0]},
    }


async def _one_way(
    stub: engine_pb2_grpc.EngineServiceAsyncStub, prompts: Sequence[Sequence[chat_pb2.Message]]
) -> tuple[int, int]:
    before = await counters(stub)
    waiting = asyncio.Semaphore(_TURNS)

    async def ask(number: int, messages: Sequence[chat_pb2.Message]) -> int:
        tokens = 0
        request = engine_pb2.GenerateRequest(
            request_id=f"prefix-{number}",
            tenant="bench",
            messages=messages,
            sampling=chat_pb2.Sampling(max_tokens=1, temperature=0.0),
        )
        async with waiting:
            # Its deadline begins with its turn.
            stream = call_stream(stub.Generate, request, name="Generate", budget=Budget.of(600), tracer=NoOpTracer())
            async with aclosing(stream) as events:
                async for event in events:
                    tokens = event.done.usage.prompt_token_count
        return tokens

    asked_for = sum(await asyncio.gather(*(ask(number, messages) for number, messages in enumerate(prompts))))

    async def counted() -> tuple[int, int] | None:
        # vLLM gives its counters with, not before, the last token.
        after = await counters(stub)
        return after if after[0] - before[0] >= asked_for else None

    after = await eventually(counted)
    return after[0] - before[0], after[1] - before[1]


async def counters(stub: engine_pb2_grpc.EngineServiceAsyncStub) -> tuple[int, int]:
    """Returns how many prompt tokens an engine has looked for in its prefix cache, and how many of them it has found."""
    reports = call_stream(
        stub.WatchLoad, engine_pb2.WatchLoadRequest(), name="WatchLoad", budget=Budget.of(60), tracer=NoOpTracer()
    )
    async with aclosing(reports) as loads:
        async for load in loads:
            return load.prefix_queried_token_count, load.prefix_hit_token_count
    raise AssertionError("the engine reports no load")


def _prompt(rng: random.Random, number: int, text: str, aspect: str) -> list[chat_pb2.Message]:
    head = (
        f"Session ID: {rng.getrandbits(64):016x}\nCurrent time: 2026-03-{1 + number % 28:02d} 10:{number % 60:02d}:07\n"
    )
    if number % 2:
        head = (
            f"会话编号：{rng.getrandbits(64):016x}\n当前时间：2026-03-{1 + number % 28:02d} 10:{number % 60:02d}:07\n"
        )
    return [
        chat_pb2.Message(role=chat_pb2.ROLE_SYSTEM, content=f"{head}Answer from this text alone.\n{text}"),
        chat_pb2.Message(role=chat_pb2.ROLE_USER, content=f"What does it say about the {aspect}?"),
    ]
