"""A caller that goes: the cancellation goes through the router to the engine, which makes not one more token."""

import asyncio
import json

import pytest
from google.api import httpbody_pb2
from harness.router import METADATA, ask, running_router
from tiermesh.engine.adapters.simulated import SimulatedBackend
from tiermesh.engine.app import wire
from tiermesh.shared.clock import SYSTEM_CLOCK
from tiermesh.shared.config import TierConfig

TIER = TierConfig(name="l1", backend="simulated", simulated_ttft_ms=1, simulated_tokens_per_second=40)
LONG = "What is a river, and what else should be told of it?"


def body(**fields):
    data = json.dumps({"messages": [{"role": "user", "content": LONG}], **fields}).encode()
    return httpbody_pb2.HttpBody(content_type="application/json", data=data)


DOORS = {
    "typed": lambda mesh: mesh.router.Generate(ask(LONG), timeout=60, metadata=METADATA),
    "chat, streamed": lambda mesh: mesh.openai.CreateChatCompletion(body(stream=True), timeout=60, metadata=METADATA),
    "chat": lambda mesh: mesh.openai.CreateChatCompletion(body(), timeout=60, metadata=METADATA),
}


async def until(engine, reached):
    """Waits until the engine's load is as asked; every change of it is announced."""
    async with asyncio.timeout(60):
        while True:
            changed = engine.changes.next()
            if reached(engine.load()):
                return
            await changed.wait()


@pytest.mark.parametrize("door", DOORS)
async def test_not_one_more_token_is_made_once_the_cancellation_has_arrived(door):
    engine, servicer = wire(TIER, clock=SYSTEM_CLOCK)
    engine.begin(SimulatedBackend(TIER, clock=SYSTEM_CLOCK))
    async with running_router(engines={"l1": servicer}) as mesh:
        call = DOORS[door](mesh)
        # A unary read is what sends the request of a stream.
        reading = asyncio.ensure_future(call.read())
        await until(engine, lambda load: load.generated_tokens >= 3)
        call.cancel()
        await until(engine, lambda load: load.aborted == 1 and not load.running)
        made = engine.load().generated_tokens
        await asyncio.gather(reading, return_exceptions=True)
        # Another answer takes its time: a token of the one given up would be counted with its own.
        answer = await mesh.generate(ask("And a lake?"))
        assert answer.error is None
        assert engine.load().generated_tokens - made == answer.last.done.usage.completion_token_count
        assert engine.load().aborted == 1
