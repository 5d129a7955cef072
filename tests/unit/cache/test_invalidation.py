"""Forgetting waits for those who answer from memory."""

import asyncio

import pytest
from harness.answers import fingerprint
from harness.eventually import eventually
from harness.semantic import FakeChangeLog
from tiermesh.cache.access import StoreAccess
from tiermesh.cache.circuit import Circuit
from tiermesh.cache.follower import Follower
from tiermesh.cache.forgotten import Forgotten
from tiermesh.cache.invalidation import Invalidation
from tiermesh.cache.local import LocalAnswers
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
