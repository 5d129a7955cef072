"""Shared runs without a network, in virtual time."""

from __future__ import annotations

import asyncio
from contextlib import aclosing
from dataclasses import dataclass, field
from pathlib import Path

from harness.virtual_time import VirtualTime
from opentelemetry.trace import INVALID_SPAN
from tiermesh.api.common.v1 import answer_pb2, chat_pb2
from tiermesh.api.router.v1 import router_pb2
from tiermesh.router.call import Call, Caller
from tiermesh.router.coalescing.flights import Flights
from tiermesh.router.coalescing.key import RunKey
from tiermesh.router.coalescing.sharing import follow_run, lead_run
from tiermesh.router.events import Completed
from tiermesh.router.settings import make_snapshot
from tiermesh.router.telling.account import Account
from tiermesh.shared.budget import Budget
from tiermesh.shared.config import parse_config
from tiermesh.shared.errors import TiermeshError

KEY = RunKey("acme", b"\0" * 32, batch=False, progressive=False)
_RAW = {
    "tenants": [{"name": "acme", "key_env": "K"}],
    "tiers": [{"name": "l1", "backend": "rules"}],
    "deadlines": {"reserve_ms": 0},
}
SNAPSHOT = make_snapshot(parse_config(_RAW, Path("/x/mesh.yaml")), rules=b"", loaded_at=0)


@dataclass
class Run:
    """What one run does: a piece after each pause, then an end."""

    pieces: tuple[str, ...] = ("one ", "two ", "three")
    pause_s: float = 1.0
    error: TiermeshError | None = None
    """Raised after the pieces instead of an end."""
    tier: str = "l1"


@dataclass
class Asked:
    """One request and what came of it."""

    name: str
    texts: list[str] = field(default_factory=list)
    label: router_pb2.RouteLabel | None = None
    end: Completed | None = None
    error: TiermeshError | None = None
    left: bool = False

    @property
    def text(self) -> str:
        """What it was given."""
        return "".join(self.texts)


class Stage:
    """A router's shared runs; each new run takes the next script.

    Args:
        loop: Time.
        scripts: What the first runs do.
        last: What all further ones do.
    """

    def __init__(self, loop: VirtualTime, *scripts: Run, last: Run | None = None) -> None:
        self.clock = loop
        self.flights = Flights(loop)
        self._scripts = list(scripts)
        self._last = last or Run()
        self.open, self.most_open, self.runs = 0, 0, 0
        self.cancelled = 0
        """Runs that were given up."""

    async def run(self, call: Call):
        """One run, as `Generation.run` would give it, within its leader's deadline."""
        script = self._scripts.pop(0) if self._scripts else self._last
        self.runs += 1
        self.open += 1
        self.most_open = max(self.most_open, self.open)
        try:
            async with call.caller.budget.limit("the run"):
                pieces = iter(script.pieces)
                await asyncio.sleep(script.pause_s)
                if script.pieces:
                    yield router_pb2.RouteLabel(request_id=call.caller.request_id, tier=script.tier)
                for n, piece in enumerate(pieces):
                    if n:
                        await asyncio.sleep(script.pause_s)
                    yield answer_pb2.Delta(text=piece)
                if script.error is not None:
                    raise script.error
                yield Completed([], answer_pb2.Usage(completion_token_count=3), (), False, 1.0)
        except (asyncio.CancelledError, GeneratorExit):
            self.cancelled += 1
            raise
        finally:
            self.open -= 1

    async def ask(self, name: str, *, deadline_s: float = 1000.0, leave_after_s: float | None = None) -> Asked:
        """Asks as the flow does; leaves after `leave_after_s`."""
        asked = Asked(name)
        reading = asyncio.ensure_future(self._read(asked, deadline_s))
        await asyncio.wait({reading}, timeout=leave_after_s)
        if not reading.done():
            asked.left = True
            reading.cancel()
        await asyncio.gather(reading, return_exceptions=True)
        if not reading.cancelled():
            reading.result()
        return asked

    async def _read(self, asked: Asked, deadline_s: float) -> None:
        call = make_call(asked.name, Budget.of(deadline_s, self.clock))
        member = self.flights.join(KEY, call, token=None)
        if member is not None:
            events = follow_run(member, in_lane=lambda given, _: given)
        else:
            events = lead_run(self.flights.start(KEY, call, self.run(call), again=lambda _, next_: self.run(next_)))
        try:
            async with aclosing(events):
                async for event in events:
                    if isinstance(event, router_pb2.RouteLabel):
                        assert asked.label is None
                        asked.label = event
                    elif isinstance(event, answer_pb2.Delta):
                        asked.texts.append(event.text)
                    else:
                        asked.end = event
        except TiermeshError as error:
            asked.error = error


def make_call(name: str, budget: Budget) -> Call:
    """Returns a call of a request that asks what everyone asks."""
    arrived = budget.clock.monotonic()
    request = router_pb2.GenerateRequest(messages=[chat_pb2.Message(role=chat_pb2.ROLE_USER, content="What?")])
    caller = Caller("acme", name, "", budget, arrived)
    return Call(caller, request, SNAPSHOT, "", INVALID_SPAN, Account(budget, arrived, budget.clock))
