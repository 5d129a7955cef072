"""Forgetting waits for those who answer from memory."""

import asyncio

import pytest
from harness.answers import fingerprint
from harness.eventually import eventually
from harness.semantic import FakeChangeLog, FakeNeighbours
from tiermesh.cache.access import StoreAccess
from tiermesh.cache.circuit import Circuit
from tiermesh.cache.follower import Follower
from tiermesh.cache.forgotten import Forgotten
from tiermesh.cache.invalidation import Invalidation
from tiermesh.cache.local import LocalAnswers
from tiermesh.cache.ports import Change
from tiermesh.cache.semantic.index import QuestionIndex
from tiermesh.cache.semantic.records import Record
from tiermesh.shared.budget import Budget
from tiermesh.shared.errors import Unavailable
from tiermesh.shared.testing import FakeAnswerStore, FakeClock


class Kit:
    """One replica forgets; others are followers of the same log. Only the test moves the clock."""

    def __init__(self):
        self.clock = FakeClock()
        self.log = FakeChangeLog()
        self.log.is_waited_for = True
        self.access = StoreAccess(Circuit(self.clock))
        self.invalidation = Invalidation(
            FakeAnswerStore(self.clock), self.access, longest_s=600, random_generation=lambda: b"12345678", log=self.log
        )
        self.local = LocalAnswers(max_entries=9, max_bytes=9999, hold_s=60, clock=self.clock)
        self.follower = Follower(self.log, self.local, Forgotten(), None, self.clock)

    def forget(self, way):
        budget = Budget.of(10, self.clock)
        ways = {
            "tenant": lambda: self.invalidation.forget_tenant("local", budget),
            "tags": lambda: self.invalidation.forget_tags("local", ["shop"], budget),
            "one": lambda: self.invalidation.forget("local", fingerprint("question"), budget),
        }
        return asyncio.ensure_future(ways[way]())

    async def told(self):
        async def said():
            return bool(self.log.changes)

        await eventually(said)


@pytest.fixture
async def kit():
    kit = Kit()
    yield kit
    await kit.access.aclose()


WAYS = ["tenant", "tags", "one"]


@pytest.mark.parametrize("way", WAYS)
async def test_it_ends_when_all_have_heard(kit, way):
    await kit.follower.step(wait_ms=0)
    kit.log.heard["another"] = 0
    forgetting = kit.forget(way)
    await kit.told()
    epoch = kit.local.epoch
    await kit.follower.step(wait_ms=0)
    assert kit.local.epoch > epoch, "it was applied ..."
    await kit.follower.step(wait_ms=0)
    assert sorted(kit.log.heard.values()) == [0, 1], "... and only then said to be heard"
    await asyncio.sleep(0.01)
    assert not forgetting.done()
    kit.log.heard["another"] = 1
    async with asyncio.timeout(60):
        await forgetting


@pytest.mark.parametrize("way", WAYS)
async def test_it_is_not_claimed_while_one_has_not_heard(kit, way):
    kit.log.heard["another"] = 0
    forgetting = kit.forget(way)
    await kit.told()

    async def ended():
        # Whether it waits already or not: by seconds, so that its own bound passes before its caller's.
        kit.clock.advance(1)
        return forgetting.done()

    await eventually(ended)
    with pytest.raises(Unavailable, match="has not heard"):
        await forgetting


async def test_a_replica_answers_from_memory_for_less_than_it_says(kit):
    await kit.follower.step(wait_ms=0)
    kit.clock.advance(0.9)
    assert kit.follower.is_current()
    kit.clock.advance(0.2)
    assert not kit.follower.is_current()
    await kit.follower.step(wait_ms=0)
    assert kit.follower.is_current()


def known_of(prefix, index, text="How do I pay?"):
    index.add(Record(prefix + b"entry", b"p", text, b"", 1.0, 1 << 60))
    return len(index)


async def test_after_an_interruption_it_says_again_what_was_forgotten_and_not_what_was_answered_since(kit):
    index = QuestionIndex(FakeNeighbours, max_entries=9, clock=kit.clock)
    follower = Follower(kit.log, kit.local, Forgotten(), index, kit.clock)
    ended, marked = Change(b"t:", ended=b"12345678"), Change(b"t:one", mark=b"87654321")
    for change in (ended, marked, Change(b"t:overwritten")):
        await kit.log.append_change(change)
    assert known_of(b"t:", index) == 1
    await follower.step(wait_ms=0)
    assert len(index) == 1, "from before it came, and perhaps answered since"
    await kit.log.append_change(ended)
    await follower.step(wait_ms=0)
    assert len(index) == 0
    follower.lost()
    kit.log.changes.clear()
    assert (await follower.step(wait_ms=0), follower.is_current()) == (0, False), "the log has lost its memory"
    known_of(b"t:", index)
    await follower.step(wait_ms=0)
    assert kit.log.changes == [ended, marked]
    assert all(change.is_repeated for change in kit.log.changes)

    started = Forgotten(is_complete=False)
    other = Follower(kit.log, kit.local, started, index, kit.clock)
    await other.step(wait_ms=0)
    assert started.is_complete
    assert (b"12345678" in started.ended_names, started.mark_of(b"t:one")) == (True, b"87654321")
    assert len(index) == 1, "it was answered since"
    await follower.step(wait_ms=0)
    assert len(kit.log.changes) == 2, "once is enough"


async def test_what_is_overwritten_is_waited_for_by_nobody_and_said_now_and_then(kit):
    await kit.follower.step(wait_ms=0)
    said = kit.log.says
    for _ in range(5):
        kit.clock.advance(0.01)
        await kit.follower.step(wait_ms=0)
    assert kit.log.says == said
    kit.clock.advance(0.2)
    await kit.follower.step(wait_ms=0)
    assert kit.log.says == said + 1
