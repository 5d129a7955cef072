"""Escalation on a mesh of real processes: a doubtful answer is given up, or given all the same, and the trace says why.

Which of the simulated tier's answers are doubtful depends on the prompt alone, so the first doubtful one is looked for.
"""

import asyncio
import itertools
import time

import pytest
from harness.eventually import eventually
from harness.ledgers import check_engine_hops, check_ledger
from tiermesh.api.common.v1 import chat_pb2
from tiermesh.api.router.v1 import router_pb2, router_pb2_grpc

MANY = 60
"""Prompts of which, about one in four being doubtful, at least one is."""


class Asking:
    """Asks a mesh prompts of which the classifier is not sure."""

    def __init__(self, mesh, channel):
        self.mesh = mesh
        self.stub = router_pb2_grpc.RouterServiceStub(channel)

    def request(self, text, **fields):
        return router_pb2.GenerateRequest(
            messages=[chat_pb2.Message(role=chat_pb2.ROLE_USER, content=text)],
            sampling=chat_pb2.Sampling(max_tokens=20),
            cache_mode=router_pb2.CACHE_MODE_OFF,
            **fields,
        )

    async def answer(self, text, **fields):
        """Returns the label and all events."""
        call = self.stub.Generate(self.request(text, **fields), timeout=120, metadata=self.mesh.metadata)
        events = [event async for event in call]
        assert events[-1].WhichOneof("event") == "done"
        return events[0].route, events

    async def doubtful(self, **fields):
        """Asks one prompt after another until one's answer is judged and not good enough; returns it with its answer."""
        for n in range(MANY):
            text = f"place number {n} and the fence"
            route, events = await self.answer(text, **fields)
            done = events[-1].done
            if any(attempt.objection == "low_confidence" for attempt in done.attempts):
                return text, route, events
        raise AssertionError(f"none of {MANY} answers was doubtful")

    async def traced(self, ask, *words):
        """Asks until `tiermesh trace` shows all of the words; returns what `ask` returned, which ends in label and events.

        Nobody sends spans again that were not taken in time, so it is asked once more then.
        """

        async def shown():
            *_, route, _ = answer = await ask()
            give_up = time.monotonic() + 15
            while time.monotonic() < give_up:
                done = await asyncio.to_thread(self.mesh.tiermesh, "trace", route.trace_id, check=False)
                if all(word in done.stdout for word in words):
                    return answer
            return None

        return await eventually(shown)


@pytest.fixture
async def asking(lite):
    """The lite mesh with escalation as shipped, but for a share that every request may use."""
    mesh = lite[0]
    async with mesh.changed({"escalation": {"enabled": True, "share": 1.0}}), mesh.channel() as channel:
        yield Asking(mesh, channel)


async def test_a_doubtful_answer_is_given_up_and_the_trace_says_why(asking):
    words = ("low_confidence:l1", "l1=rejected", "l2=answered", "judged.confidence")
    text, route, events = await asking.traced(asking.doubtful, *words)
    assert (route.tier, route.reasons[-1]) == ("l2", "low_confidence:l1")
    rejected, answered = events[-1].done.attempts
    assert (rejected.tier, rejected.outcome) == ("l1", "rejected")
    assert 0 < rejected.confidence < 0.95
    assert (answered.tier, answered.outcome) == ("l2", "answered")
    # Nothing of the first answer is seen: the text is the second tier's own.
    deltas = "".join(event.delta.text for event in events if event.HasField("delta"))
    assert deltas.startswith("[simulated simulated-large]")
    check_ledger(events[-1].done.ledger)
    check_engine_hops(events[-1].done)
    assert events[-1].done.ledger.held.ToNanoseconds() > 0

    # The same prompt, with no escalation left to take: the answer is given all the same, and says so.
    async with asking.mesh.changed({"escalation": {"enabled": True, "share": 0.0, "burst": 1}}):

        async def skipped():
            # There is one escalation, which the first that asks for one takes.
            route, events = await asking.answer(text)
            return (route, events) if "escalation_skipped=quota" in [*route.reasons, *events[-1].done.reasons] else None

        async def asked():
            return await eventually(skipped)

        route, _ = await asking.traced(asked, "escalation_skipped=quota", "l1=answered")
    assert route.tier == "l1"


async def test_progressive_mode_gives_the_quick_answer_first_and_then_a_better_one(asking):
    _, route, events = await asking.doubtful(progressive=True)
    kinds = [kind for kind, _ in itertools.groupby(event.WhichOneof("event") for event in events)]
    assert kinds == ["route", "delta", "revision", "done"]
    assert route.tier == "l1"
    (revision,) = [event.revision for event in events if event.HasField("revision")]
    assert (revision.tier, list(revision.reasons)) == ("l2", ["low_confidence:l1"])
    assert revision.texts[0].startswith("[simulated simulated-large]")
    assert [attempt.outcome for attempt in events[-1].done.attempts] == ["answered", "answered"]
    check_ledger(events[-1].done.ledger)
    check_engine_hops(events[-1].done)
