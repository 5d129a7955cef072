"""`tiermesh cache warm` beside live traffic: a real router and a real engine whose answers take as long as the test says."""

import asyncio
import json
from collections import defaultdict
from contextlib import asynccontextmanager
from datetime import time
from types import SimpleNamespace

from harness.engine import ScriptedBackend
from harness.eventually import eventually
from harness.router import METADATA, ask, make_settings, running_router
from tiermesh.api.common.v1 import chat_pb2
from tiermesh.api.router.v1 import router_pb2
from tiermesh.client.cli._warm import _ask as ask_as_warm
from tiermesh.client.cli.warmer import PAUSE_S, Report, Warmer
from tiermesh.client.cli.warming import parse_line
from tiermesh.engine.app import wire as wire_engine
from tiermesh.engine.ports import Finish, Lane, Piece
from tiermesh.shared.clock import SYSTEM_CLOCK

SLOTS, QUEUE = 4, 2
ANSWER = Piece(0, "an answer", 2, finish=Finish.STOP)


def question(text):
    """What the command makes of a line of its file."""
    body = {"model": "tier:l1", "messages": [{"role": "user", "content": text}], "temperature": 0}
    return parse_line(json.dumps(body))


class GatedBackend(ScriptedBackend):
    """Notes what begins, and ends an answer when its gate is opened."""

    def __init__(self):
        super().__init__()
        self.began = []
        self.gates = defaultdict(asyncio.Event)

    async def generate(self, prompt, sampling, *, request_id, lane):
        text = prompt.turns[-1].content
        self.began.append((text, lane))
        await self.gates[text].wait()
        yield ANSWER


class Mesh:
    """A router, the engine of its tier `l1`, callers, and a warmer whose pauses the test ends."""

    def __init__(self, router, engine, backend):
        self.router, self.engine, self.backend = router, engine, backend
        self.slept, self.said, self.answered = [], [], []
        self.resume = asyncio.Event()
        self.report = Report()

    def live(self, *texts):
        """Callers that wait for their answers; each begins when those before it have arrived at the engine."""
        request = {"model": "tier:l1", "cache_mode": router_pb2.CACHE_MODE_OFF}
        return [asyncio.create_task(self.router.generate(ask(text, **request))) for text in texts]

    def warm(self, *texts):
        """Begins to warm the cache, with what the command does but for its pauses."""
        questions = [question(text) for text in texts]
        door = SimpleNamespace(metadata=METADATA)

        async def sleep(seconds):
            self.slept.append(seconds)
            await self.resume.wait()
            self.resume.clear()

        warmer = Warmer(
            lambda question: ask_as_warm(self.router.router, question, door),
            lambda question: self.answered.append(question.messages[-1].content),
            window=None,
            pause_s=0,
            now=lambda: time(0),
            sleep=sleep,
            tell=self.said.append,
        )
        return asyncio.create_task(warmer.run(questions, self.report))

    async def run(self, count):
        """Waits until so many prompts have begun in all."""

        async def began():
            return len(self.backend.began) == count

        await eventually(began)

    async def wait(self, count):
        """Waits until so many prompts wait at the engine."""

        async def waiting():
            return self.engine.load().waiting == count

        await eventually(waiting)

    async def backs_off(self, times):
        """Waits until the warmer has paused so many times."""

        async def paused():
            return len(self.slept) == times

        await eventually(paused)


@asynccontextmanager
async def open_mesh():
    backend = GatedBackend()
    tier = next(tier for tier in make_settings().current.tiers if tier.name == "l1")
    tier = tier.model_copy(update={"slots": SLOTS, "queue": QUEUE, "hopeless_work": "dark"})
    engine, servicer = wire_engine(tier, clock=SYSTEM_CLOCK)
    engine.begin(backend)
    async with running_router(engines={"l1": servicer}) as router:
        try:
            yield Mesh(router, engine, backend)
        finally:
            servicer.end_watches()


async def test_live_traffic_goes_first_and_warming_waits_for_it_and_goes_on():
    async with open_mesh() as mesh:
        live = mesh.live("live 1", "live 2", "live 3", "live 4")
        await mesh.run(SLOTS)
        live += mesh.live("live 5")
        await mesh.wait(1)

        # All slots are taken: the question waits like anybody else ...
        warming = mesh.warm("warm 1", "warm 2")
        await mesh.wait(2)
        assert mesh.slept == []
        # ... until a caller needs its place.
        live += mesh.live("live 6")
        await mesh.backs_off(1)
        await mesh.wait(2)
        # A mesh that is full still has no room for it, and is left alone for longer.
        mesh.resume.set()
        await mesh.backs_off(2)
        assert mesh.slept == [PAUSE_S, 2 * PAUSE_S]
        assert mesh.said[-1] == "the mesh is busy"
        assert [lane for _, lane in mesh.backend.began] == [Lane.INTERACTIVE] * SLOTS

        for number in range(1, 7):
            mesh.backend.gates[f"live {number}"].set()
        answers = await asyncio.gather(*live)
        assert [(answer.error, answer.text) for answer in answers] == [(None, "an answer")] * 6
        assert {lane for _, lane in mesh.backend.began} == {Lane.INTERACTIVE}
        assert mesh.answered == []

        # There is room again: it goes on where it was, one question at a time, and callers pass it.
        mesh.resume.set()
        await mesh.run(7)
        assert mesh.backend.began[-1] == ("warm 1", Lane.BATCH)
        (late,) = mesh.live("live 7")
        await mesh.run(8)
        assert mesh.backend.began[-1] == ("live 7", Lane.INTERACTIVE)
        mesh.backend.gates["live 7"].set()
        assert (await late).text == "an answer"
        assert not mesh.answered
        for text in ("warm 1", "warm 2"):
            mesh.backend.gates[text].set()
        async with asyncio.timeout(60):
            await warming
        assert mesh.answered == ["warm 1", "warm 2"]
        assert mesh.backend.began[-1] == ("warm 2", Lane.BATCH)
        assert (mesh.report.answered, mesh.report.left, mesh.report.refused) == (2, 0, {})

        # What it was for: the callers of these questions cost the engine nothing.
        await mesh.router.wired.stores.drain()
        same = question("warm 1")
        same.priority = chat_pb2.PRIORITY_INTERACTIVE
        found = await mesh.router.generate(same)
        assert found.route.cache_status == router_pb2.CACHE_STATUS_HIT
        assert len(mesh.backend.began) == 9


async def test_warming_never_takes_the_slots_that_are_kept_for_callers():
    async with open_mesh() as mesh:
        several = [mesh.warm(f"warm {number}") for number in range(SLOTS)]
        await mesh.run(SLOTS - 1)
        await mesh.wait(1)
        (caller,) = mesh.live("live")
        await mesh.run(SLOTS)
        assert mesh.backend.began[-1] == ("live", Lane.INTERACTIVE)
        mesh.backend.gates["live"].set()
        assert (await caller).text == "an answer"
        assert mesh.slept == []
        for number in range(SLOTS):
            mesh.backend.gates[f"warm {number}"].set()
        async with asyncio.timeout(60):
            await asyncio.gather(*several)
        assert sorted(mesh.answered) == [f"warm {number}" for number in range(SLOTS)]
