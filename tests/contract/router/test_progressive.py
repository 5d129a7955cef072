"""Progressive mode: the quick answer first, then a stronger tier's where it is better and in time."""

import asyncio

import pytest
from harness.router import METADATA, ask, running_router
from tiermesh.api.common.v1 import answer_pb2
from tiermesh.api.engine.v1 import engine_pb2
from tiermesh.shared.errors import Unavailable
from tiermesh.shared.testing import answer_steps

CALIBRATED = {"calibrations": {"l1": {"default": {"intercept": 4.0, "mean": 4.0}}}}


def spoken(words, logprob):
    steps = answer_steps(*words)
    for step, word in zip(steps[1:-1], words, strict=True):
        step.delta.logprobs.add(token=word, logprob=logprob)
    return steps


@pytest.fixture
async def mesh():
    async with running_router(escalation=CALIBRATED) as router:
        yield router


def progressive(text="What is a river?"):
    return ask(text, progressive=True)


async def test_a_doubtful_answer_is_streamed_at_once_and_revised(mesh):
    mesh.engines["l1"].steps = spoken(["Some", "thing"], -2.0)
    answer = await mesh.generate(progressive())
    assert answer.kinds() == ["route", "delta", "delta", "revision", "done"]
    assert answer.route.tier == "l1"
    assert answer.text == "Something"
    revision = answer.messages[-2].revision
    assert (revision.tier, revision.model) == ("l2", "large")
    assert list(revision.texts) == ["l2 says 你好"]
    assert list(revision.reasons) == ["low_confidence:l1"]
    assert revision.finishes[0].finish_reason == answer_pb2.FINISH_REASON_STOP
    done = answer.last.done
    assert [(a.tier, a.outcome) for a in done.attempts] == [("l1", "answered"), ("l2", "answered")]
    assert done.usage.completion_token_count == 5
    assert done.ledger.held.ToNanoseconds() == 0
    assert [hop.tier for hop in done.ledger.hops if hop.name == "engine"] == ["l1", "l2"]


async def test_the_quick_answer_is_not_held_up_by_the_stronger(mesh):
    mesh.engines["l1"].steps = spoken(["quick"], -2.0)
    mesh.engines["l2"].hangs = True
    call = mesh.router.Generate(progressive(), timeout=60, metadata=METADATA)
    await call.read()
    assert (await call.read()).delta.text == "quick"
    async with asyncio.timeout(60):
        await mesh.engines["l2"].entered.wait()
        call.cancel()
        await mesh.engines["l2"].abandoned.wait()


async def test_an_answer_known_to_be_good_is_not_revised(mesh):
    mesh.engines["l1"].steps = spoken(["Sure"], -0.01)
    answer = await mesh.generate(progressive())
    assert answer.kinds() == ["route", "delta", "done"]
    assert not mesh.engines["l2"].requests


async def test_without_a_calibration_asking_is_reason_enough():
    async with running_router() as mesh:
        answer = await mesh.generate(progressive())
        assert answer.messages[-2].revision.tier == "l2"
        assert list(answer.messages[-2].revision.reasons) == ["progressive:l1"]


async def test_a_stronger_answer_that_is_no_better_is_not_given(mesh):
    mesh.engines["l2"].steps = answer_steps("I cannot answer that.")
    mesh.engines["l1"].steps = spoken(["Hm", "m"], -0.9)
    answer = await mesh.generate(progressive())
    assert answer.kinds() == ["route", "delta", "delta", "done"]
    assert list(answer.last.done.reasons) == ["revision_no_better:l2"]
    assert answer.last.done.attempts[1].outcome == "rejected"


async def test_a_stronger_tier_that_fails_leaves_the_quick_answer(mesh):
    mesh.engines["l1"].steps = spoken(["Some", "thing"], -2.0)
    mesh.engines["l2"].error = Unavailable("gone")
    answer = await mesh.generate(progressive())
    assert answer.error is None
    assert answer.text == "Something"
    assert list(answer.last.done.reasons) == ["revision_failed:l2"]
    await mesh.wired.stores.drain()
    assert not mesh.cache.stores


async def test_gates_count_for_revisions_too(mesh):
    # The lane expects more than 20 s of a tier that has not answered yet.
    mesh.engines["l1"].steps = spoken(["Some", "thing"], -2.0)
    answer = await mesh.generate(progressive(), timeout=15)
    assert answer.kinds()[-1] == "done"
    assert list(answer.last.done.reasons) == ["escalation_skipped=budget"]


async def test_the_stronger_answer_is_the_one_that_is_kept(mesh):
    mesh.engines["l1"].steps = spoken(["Some", "thing"], -2.0)
    await mesh.generate(progressive())
    await mesh.wired.stores.drain()
    hit = await mesh.generate(ask())
    assert hit.text == "l2 says 你好"
    assert hit.route.tier == "l2"


async def test_pinned_requests_are_not_revised(mesh):
    request = progressive()
    request.model = "tier:l1"
    answer = await mesh.generate(request)
    assert "revision" not in answer.kinds()
    assert not mesh.engines["l2"].requests


async def test_nothing_of_a_broken_quick_answer_is_revised(mesh):
    mesh.engines["l1"].steps = [
        engine_pb2.GenerateResponse(started=engine_pb2.Started()),
        engine_pb2.GenerateResponse(delta=answer_pb2.Delta(text="half")),
        Unavailable("connection lost"),
    ]
    answer = await mesh.generate(progressive())
    assert answer.kinds() == ["route", "delta", "failure"]
