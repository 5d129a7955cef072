"""Lookup, store and invalidate over a store in memory."""

import asyncio
from itertools import count

import pytest
from harness.answers import fingerprint, make_answer
from tiermesh.cache.access import StoreAccess
from tiermesh.cache.answers import AnswerCache, Result
from tiermesh.cache.circuit import Circuit
from tiermesh.cache.codec import Codec
from tiermesh.cache.freshness import Freshness
from tiermesh.cache.generations import LastGenerations
from tiermesh.cache.invalidation import Invalidation
from tiermesh.cache.keeping import AnswerKeeper, Offer
from tiermesh.cache.keys import generation_key, place_of
from tiermesh.cache.tokens import token_of
from tiermesh.shared.budget import Budget
from tiermesh.shared.errors import Unavailable
from tiermesh.shared.testing import FakeAnswerStore, FakeClock

QUESTION = fingerprint("question")


class Kit:
    """A cache over a fake store, with chosen randomness."""

    def __init__(self, timeout_s=1.0):
        self.clock = FakeClock()
        self.store = FakeAnswerStore(self.clock)
        self.access = StoreAccess(Circuit(self.clock))
        generations = count(1)
        self.fraction = 0.5
        seen = LastGenerations()
        parts = {
            "freshness": Freshness(100),
            "clock": self.clock,
            "timeout_s": timeout_s,
            "random_generation": lambda: next(generations).to_bytes(8, "big"),
            "generations": seen,
        }
        self.cache = AnswerCache(self.store, self.access, Codec(2048), **parts)
        self.keeper = AnswerKeeper(
            self.store, self.access, Codec(2048), random_fraction=lambda: self.fraction, tells=False, **parts
        )
        self.invalidation = Invalidation(
            self.store,
            self.access,
            longest_s=600,
            random_generation=lambda: next(generations).to_bytes(8, "big"),
        )

    async def keep(self, answer=None, tenant="local", question=QUESTION, ttl_s=None, token=b""):
        offer = Offer(tenant, question, answer or make_answer("x"), ttl_s=ttl_s, token=token)
        (outcome,) = await self.keeper.keep([offer], Budget.of(10))
        return outcome.kept

    async def lookup(self, tenant="local", question=QUESTION):
        return await self.cache.lookup(tenant, question, Budget.of(10))

    async def result(self, **where):
        return (await self.lookup(**where)).result


@pytest.fixture
async def kit():
    kit = Kit()
    yield kit
    await kit.access.aclose()


async def test_a_hit_is_what_was_stored(kit):
    assert await kit.result() is Result.MISS
    answer = make_answer("你", "好")
    assert await kit.keep(answer)
    found = await kit.lookup()
    assert found.result is Result.HIT
    assert found.answer == answer
    assert found.stored_bytes == len(kit.store.values[place_of("local", QUESTION).entry])


async def test_tenants_and_questions_are_apart(kit):
    await kit.keep()
    assert await kit.result(tenant="other") is Result.MISS
    assert await kit.result(question=fingerprint("other")) is Result.MISS


async def test_answers_expire_with_jitter(kit):
    kit.fraction = 0.0
    await kit.keep()
    kit.clock.advance(89.9)
    assert await kit.result() is Result.HIT
    kit.clock.advance(0.2)
    assert await kit.result() is Result.MISS


async def test_a_request_may_name_its_time_to_live(kit):
    await kit.keep(ttl_s=5)
    kit.clock.advance(5.1)
    assert await kit.result() is Result.MISS


async def test_what_is_too_large_is_not_kept(kit):
    assert not await kit.keep(make_answer("x" * 3000))
    assert kit.store.values == {}


async def test_a_tenant_is_forgotten_at_once_and_another_is_not(kit):
    questions = [fingerprint(str(n)) for n in range(5)]
    for question in questions:
        await kit.keep(question=question)
        await kit.keep(question=question, tenant="other")
    assert await kit.invalidation.forget_tenant("local", Budget.of(10)) == 5
    assert [await kit.result(question=q) for q in questions] == [Result.MISS] * 5
    assert [await kit.result(question=q, tenant="other") for q in questions] == [Result.HIT] * 5
    await kit.keep()
    assert await kit.result() is Result.HIT


async def test_an_answer_on_its_way_into_the_store_is_forgotten_too(kit):
    await kit.keep()
    settle = kit.store.settle

    async def settle_and_be_overtaken(key, fresh):
        generation = await settle(key, fresh)
        await kit.invalidation.forget_tenant("local", Budget.of(10))
        return generation

    kit.store.settle = settle_and_be_overtaken
    assert not await kit.keep()
    assert await kit.result() is Result.MISS


async def test_losing_a_generation_never_brings_forgotten_answers_back(kit):
    await kit.keep()
    place = place_of("local", QUESTION)
    old = kit.store.values[place.entry]
    await kit.invalidation.forget_tenant("local", Budget.of(10))
    del kit.store.values[place.generation]
    kit.store.values[place.entry] = old
    assert await kit.result() is Result.MISS
    await kit.keep(question=fingerprint("another"))
    assert await kit.result() is Result.MISS


async def test_a_full_store_still_forgets(kit):
    await kit.keep()
    kit.store.full = True
    await kit.invalidation.forget_tenant("local", Budget.of(10))
    assert await kit.result() is Result.MISS


async def test_one_answer_is_forgotten(kit):
    await kit.keep()
    await kit.keep(question=fingerprint("other"))
    assert await kit.invalidation.forget("local", QUESTION, Budget.of(10)) == 1
    assert await kit.invalidation.forget("local", QUESTION, Budget.of(10)) == 0
    assert await kit.result() is Result.MISS
    assert await kit.result(question=fingerprint("other")) is Result.HIT


async def test_forgetting_is_not_claimed_while_the_store_is_down(kit):
    await kit.keep()
    kit.store.down = True
    with pytest.raises(Unavailable):
        await kit.invalidation.forget("local", QUESTION, Budget.of(10))
    with pytest.raises(Unavailable):
        await kit.invalidation.forget_tenant("local", Budget.of(10))


@pytest.mark.parametrize("way", ["tenant", "tags", "one"])
async def test_forgetting_that_a_failover_might_undo_is_in_force_but_not_claimed(kit, way):
    tagged = make_answer("x")
    tagged.tags[:] = ["any"]
    await kit.keep(tagged)
    kit.store.is_secure = False
    with pytest.raises(Unavailable, match="try again"):
        await invalidate(kit, way)
    assert await kit.result() is Result.MISS


async def test_a_damaged_value_is_a_miss_and_deleted(kit):
    await kit.keep()
    entry = place_of("local", QUESTION).entry
    kit.store.values[entry] = b"\x40" + kit.store.values[entry][1:]
    assert await kit.result() is Result.MISS
    assert entry not in kit.store.values
    await kit.keep()
    assert await kit.result() is Result.HIT


async def test_a_damaged_generation_is_replaced(kit):
    await kit.keep()
    kit.store.values[generation_key("local")] = b"rubbish"
    assert await kit.result() is Result.MISS
    await kit.keep()
    assert await kit.result() is Result.HIT


async def test_a_store_that_is_down_is_soon_not_asked(kit):
    kit.store.down = True
    assert [await kit.result() for _ in range(10)] == [Result.UNAVAILABLE] * 10
    assert kit.store.calls == 3
    assert not await kit.keep()
    kit.store.down = False
    kit.clock.advance(0.2)
    assert await kit.result() is Result.MISS
    assert await kit.keep()


async def test_a_store_that_hangs_costs_the_bound():
    kit = Kit(timeout_s=0.005)
    kit.store.answering.clear()
    async with asyncio.timeout(60):
        assert [await kit.result() for _ in range(3)] == [Result.UNAVAILABLE] * 3
        assert not await kit.keep()
    kit.store.answering.set()
    kit.clock.advance(0.2)
    assert await kit.result() is Result.MISS
    await kit.access.aclose()


async def test_a_full_store_says_not_stored_and_still_finds(kit):
    await kit.keep()
    kit.store.full = True
    assert not await kit.keep(question=fingerprint("other"))
    assert await kit.result() is Result.HIT


async def test_a_value_of_a_later_release_is_a_miss_that_leaves_it_alone(kit):
    await kit.keep()
    entry = place_of("local", QUESTION).entry
    later = b"\x02" + kit.store.values[entry][1:]
    kit.store.values[entry] = later
    assert await kit.result() is Result.MISS
    assert kit.store.values[entry] == later
    assert await kit.keep(token=(await kit.lookup()).token)
    assert await kit.result() is Result.HIT


async def invalidate(kit, way):
    budget = Budget.of(10)
    if way == "tenant":
        await kit.invalidation.forget_tenant("local", budget)
    elif way == "tags":
        await kit.invalidation.forget_tags("local", ["any"], budget)
    else:
        await kit.invalidation.forget("local", QUESTION, budget)


WAYS = ["tenant", "tags", "one"]


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("known", [True, False])
async def test_an_answer_begun_before_an_invalidation_is_not_kept_after_it(kit, way, known):
    if known:
        await kit.keep(question=fingerprint("makes a generation"))
    begun = (await kit.lookup()).token
    await invalidate(kit, way)
    assert not await kit.keep(token=begun)
    assert await kit.result() is Result.MISS
    again = (await kit.lookup()).token
    assert await kit.keep(token=again)
    assert await kit.result() is Result.HIT


@pytest.mark.parametrize("way", WAYS)
async def test_a_stale_answer_made_anew_is_overtaken_too(kit, way):
    tagged = make_answer("x")
    tagged.tags[:] = ["any"]
    await kit.keep(tagged)
    begun = (await kit.lookup()).token
    await invalidate(kit, way)
    assert not await kit.keep(make_answer("late"), token=begun)
    assert await kit.result() is Result.MISS


async def test_forgetting_one_answer_leaves_other_late_ones_alone(kit):
    other = fingerprint("other")
    begun = (await kit.lookup(question=other)).token
    await invalidate(kit, "one")
    assert await kit.keep(question=other, token=begun)


async def test_forgotten_twice_only_what_began_after_the_second_time_is_kept(kit):
    await invalidate(kit, "one")
    between = (await kit.lookup()).token
    await invalidate(kit, "one")
    assert not await kit.keep(token=between)
    assert await kit.keep(token=(await kit.lookup()).token)


async def test_a_tombstone_goes_when_no_request_can_be_that_old(kit):
    begun = (await kit.lookup()).token
    await invalidate(kit, "one")
    entry = place_of("local", QUESTION).entry
    assert entry in kit.store.values
    kit.clock.advance(601)
    assert await kit.result() is Result.MISS
    assert entry not in kit.store.values
    assert await kit.keep(token=begun)


async def test_a_full_store_that_takes_no_tombstone_forgets_more_and_never_less(kit):
    await kit.keep()
    begun = (await kit.lookup()).token
    kit.store.full = True
    await invalidate(kit, "one")
    kit.store.full = False
    assert not await kit.keep(token=begun)
    assert await kit.result() is Result.MISS


async def test_a_lookup_that_could_not_ask_hands_out_a_token_that_keeps_nothing(kit):
    kit.store.down = True
    begun = (await kit.lookup()).token
    kit.store.down = False
    kit.clock.advance(2)
    assert not await kit.keep(token=begun)


async def test_a_token_can_be_had_without_the_answer(kit):
    await kit.keep()
    budget = Budget.of(10)
    found = await kit.cache.token("local", QUESTION, budget)
    assert (found.result, found.answer) == (Result.MISS, None)
    assert await kit.keep(make_answer("anew"), token=found.token)
    assert (await kit.lookup()).answer.deltas[0].text == "anew"


async def test_answers_that_come_together_cost_one_step_and_each_is_told_of(kit):
    questions = [fingerprint(str(n)) for n in range(5)]
    begun = [(await kit.lookup(question=question)).token for question in questions]
    late = (await kit.lookup(tenant="forgotten")).token
    await kit.invalidation.forget_tenant("forgotten", Budget.of(10))
    offers = [Offer("local", q, make_answer(f"answer {n}"), token=begun[n]) for n, q in enumerate(questions)]
    offers.insert(2, Offer("local", fingerprint("big"), make_answer("x" * 3000), token=begun[0]))
    calls = kit.store.calls
    outcomes = await kit.keeper.keep(offers, Budget.of(10))
    assert kit.store.calls == calls + 1
    assert [outcome.kept is not None for outcome in outcomes] == [True, True, False, True, True, True]
    assert [(await kit.lookup(question=q)).answer.deltas[0].text for q in questions] == [
        f"answer {n}" for n in range(5)
    ]
    forgotten = Offer("forgotten", QUESTION, make_answer("old"), token=late)
    (outcome, other) = await kit.keeper.keep([forgotten, offers[0]], Budget.of(10))
    assert (outcome.kept, other.kept is not None) == (None, True)


async def test_what_this_replica_has_seen_of_a_generation_may_be_out_of_date(kit):
    begun = (await kit.lookup()).token
    await kit.invalidation.forget_tenant("local", Budget.of(10))
    # This replica has not looked up since.
    assert not await kit.keep(token=begun)
    again = token_of(kit.store.values[generation_key("local")], None)
    assert await kit.keep(token=again)
    assert await kit.result() is Result.HIT
