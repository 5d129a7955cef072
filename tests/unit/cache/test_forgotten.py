"""What was forgotten stays so in a store that has lost its last writes."""

import itertools

import pytest
from harness.answers import fingerprint, make_answer
from tiermesh.cache.access import StoreAccess
from tiermesh.cache.answers import AnswerCache, Result
from tiermesh.cache.circuit import Circuit
from tiermesh.cache.codec import Codec
from tiermesh.cache.forgotten import Forgotten, ended_name
from tiermesh.cache.freshness import Freshness
from tiermesh.cache.generations import LastGenerations
from tiermesh.cache.invalidation import Invalidation
from tiermesh.cache.keeping import AnswerKeeper, Offer
from tiermesh.cache.keys import place_of
from tiermesh.cache.ports import Change
from tiermesh.shared.budget import Budget
from tiermesh.shared.testing import FakeAnswerStore, FakeClock

QUESTION = fingerprint("question")
PLACE = place_of("local", QUESTION)
GENERATIONS = itertools.count(1)


def another_generation():
    return next(GENERATIONS).to_bytes(8, "big")


class Replica:
    """A cache of its own over a store that it shares."""

    def __init__(self, store, clock, *, is_complete=True):
        self.store, self.forgotten = store, Forgotten(is_complete=is_complete)
        self.access = StoreAccess(Circuit(clock))
        parts = {
            "freshness": Freshness(100, {}, {}, frozenset()),
            "clock": clock,
            "timeout_s": 60,
            "random_generation": another_generation,
            "generations": LastGenerations(),
            "forgotten": self.forgotten,
        }
        self.cache = AnswerCache(store, self.access, Codec(2048), **parts)
        keeper = AnswerKeeper(store, self.access, Codec(2048), random_fraction=lambda: 0.5, tells=False, **parts)
        self.keeper = keeper
        self.invalidation = Invalidation(
            store, self.access, longest_s=600, random_generation=another_generation, forgotten=self.forgotten
        )

    async def keep(self, text="x", token=b""):
        answer = make_answer(text)
        answer.tags[:] = ["any"]
        (outcome,) = await self.keeper.keep([Offer("local", QUESTION, answer, token=token)], Budget.of(10))
        return outcome.kept

    async def lookup(self):
        return await self.cache.lookup("local", QUESTION, Budget.of(10))

    async def result(self):
        return (await self.lookup()).result

    async def token(self):
        return (await self.cache.token("local", QUESTION, Budget.of(10))).token

    async def forget(self, way):
        budget = Budget.of(10)
        if way == "tenant":
            await self.invalidation.forget_tenant("local", budget)
        elif way == "tags":
            await self.invalidation.forget_tags("local", ["any"], budget)
        else:
            await self.invalidation.forget("local", QUESTION, budget)


@pytest.fixture
async def clock():
    return FakeClock()


@pytest.fixture
async def replica(clock):
    replica = Replica(FakeAnswerStore(clock), clock)
    yield replica
    await replica.access.aclose()


WAYS = ["tenant", "tags", "one"]


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("times", [1, 2])
async def test_what_was_forgotten_is_not_given_when_it_is_back_and_the_store_is_repaired(replica, way, times):
    await replica.keep("wrong")
    assert await replica.result() is Result.HIT
    before = dict(replica.store.values)
    for _ in range(times):
        await replica.forget(way)
    replica.store.values = dict(before)
    assert await replica.result() is Result.MISS
    assert replica.store.values != before
    begun = (await replica.lookup()).token
    assert await replica.keep("right", token=begun)
    found = await replica.lookup()
    assert (found.result, found.answer.deltas[0].text) == (Result.HIT, "right")
    assert await replica.keep("anew", token=await replica.token())
    assert (await replica.lookup()).answer.deltas[0].text == "anew"


@pytest.mark.parametrize("way", WAYS)
async def test_an_answer_begun_before_is_not_given_after_though_the_store_took_it(replica, way):
    await replica.keep("makes a generation")
    before = dict(replica.store.values)
    begun = (await replica.lookup()).token
    await replica.forget(way)
    replica.store.values = dict(before)
    await replica.keep("late", token=begun)
    assert await replica.result() is Result.MISS


@pytest.mark.parametrize("way", WAYS)
async def test_a_replica_that_has_not_heard_leaves_what_the_others_do_not_take(replica, clock, way):
    # It keeps an answer where the invalidation was lost; whoever has heard of it makes up for that.
    await replica.keep("wrong")
    before = dict(replica.store.values)
    await replica.forget(way)
    replica.store.values = dict(before)
    other = Replica(replica.store, clock)
    await other.keep("also wrong", token=(await other.lookup()).token)
    assert await replica.result() is Result.MISS
    assert await other.result() is Result.MISS
    assert await other.keep("right", token=(await other.lookup()).token)
    assert await replica.result() is await other.result() is Result.HIT
    await other.access.aclose()


async def test_answers_begun_after_it_are_found_whoever_has_heard_what(replica, clock):
    await replica.keep("wrong")
    await replica.forget("one")
    assert await replica.keep(token=(await replica.lookup()).token)
    other = Replica(replica.store, clock)
    assert await other.result() is await replica.result() is Result.HIT
    clock.advance(700)
    assert await replica.keep(token=(await replica.lookup()).token) is None, "the tombstone is put there again"
    assert await replica.keep(token=(await replica.lookup()).token)
    assert await other.result() is await replica.result() is Result.HIT
    await other.access.aclose()


async def test_nothing_is_given_before_what_is_forgotten_was_heard(replica, clock):
    await replica.keep()
    starting = Replica(replica.store, clock, is_complete=False)
    assert await starting.result() is Result.MISS
    starting.forgotten.is_complete = True
    assert await starting.result() is Result.HIT
    await starting.access.aclose()


def test_it_remembers_the_latest():
    forgotten = Forgotten(max_remembered=3)
    for number in range(5):
        forgotten.note(Change(b"t:", ended=ended_name(bytes([number]))))
        forgotten.note(Change(b"entry%d" % number, mark=b"m"))
    assert [forgotten.has_ended(bytes([number])) for number in range(5)] == [False, False, True, True, True]
    assert [forgotten.mark_of(b"entry%d" % number) for number in range(5)] == [None, None, b"m", b"m", b"m"]
    forgotten.note(Change(b"entry4", mark=b"later"))
    assert forgotten.mark_of(b"entry4") == b"later"
