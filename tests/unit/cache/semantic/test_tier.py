"""What the semantic tier does where there is little time."""

import asyncio
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest
from harness.semantic import FakeEmbedder, FakeNeighbours
from tiermesh.cache.semantic.index import QuestionIndex
from tiermesh.cache.semantic.tier import SemanticTier
from tiermesh.shared.budget import Budget
from tiermesh.shared.testing import FakeClock

DIGEST = b"d" * 32


class SlowEmbedder:
    """One thread, as the real one has, that waits until it is let go."""

    def __init__(self):
        self.gate, self.at_work, self.begun = threading.Event(), threading.Event(), []
        self.executor = ThreadPoolExecutor(max_workers=1)

    async def embed(self, text):
        return await asyncio.get_running_loop().run_in_executor(self.executor, self.work, text)

    def work(self, text):
        self.begun.append(text)
        self.at_work.set()
        self.gate.wait(20)
        return b""


def make_tier(embedder):
    index = QuestionIndex(FakeNeighbours, max_entries=10, clock=FakeClock())
    return SemanticTier(index, embedder, threshold=0.5, task_types=frozenset({"faq"}), shadow=False)


@pytest.fixture
def slow():
    embedder = SlowEmbedder()
    yield embedder
    embedder.gate.set()
    embedder.executor.shutdown()


async def test_an_embedding_that_is_late_is_a_miss_in_time(slow):
    async with asyncio.timeout(60):
        match = await make_tier(slow).match("t", DIGEST, "how do I pay?", "", Budget.of(0.05))
    assert (match.candidate, match.refused_by) == (None, "late")


async def test_nothing_is_embedded_for_a_caller_who_has_gone(slow):
    tier = make_tier(slow)
    first = asyncio.create_task(tier.match("t", DIGEST, "how do I pay?", "", Budget.of(60)))
    assert await asyncio.to_thread(slow.at_work.wait, 20)
    async with asyncio.timeout(60):
        for text in ("how do I vote?", "how do I cook?"):
            assert (await tier.match("t", DIGEST, text, "", Budget.of(0.05))).refused_by == "late"
    slow.gate.set()
    assert (await first).refused_by == ""
    slow.executor.shutdown(wait=True)
    # What waited behind the first was never begun.
    assert slow.begun == ["how do I pay?"]


async def test_too_little_time_is_not_even_begun():
    embedder = FakeEmbedder()
    match = await make_tier(embedder).match("t", DIGEST, "how do I pay?", "", Budget.of(0.001))
    assert match.refused_by == "late"
    assert not embedder.texts


async def test_a_question_that_could_not_be_embedded_in_time_is_not_shared(slow):
    record = await make_tier(slow).record(
        "t", DIGEST, "how do I pay?", task_type="faq", entry=b"e", cost=1, ends_ms=1, budget=Budget.of(0.05)
    )
    assert record is None
