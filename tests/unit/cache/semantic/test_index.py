"""Which remembered question is the best candidate."""

import random

import pytest
from harness.semantic import FakeEmbedder, FakeNeighbours
from tiermesh.cache.semantic.index import QuestionIndex
from tiermesh.cache.semantic.question import question_of
from tiermesh.cache.semantic.records import Record
from tiermesh.shared.testing import FakeClock

P, Q = b"p" * 32, b"q" * 32


class Kit:
    def __init__(self, max_entries=100):
        self.clock = FakeClock()
        self.embedder = FakeEmbedder()
        self.index = QuestionIndex(FakeNeighbours, max_entries=max_entries, clock=self.clock, rng=random.Random(1))

    async def add(self, text, entry, partition=P, cost=10.0, life_s=100):
        vector = await self.embedder.embed(text)
        ends = round((self.clock.wall() + life_s) * 1000)
        self.index.add(Record(entry, partition, text, vector, cost, ends))

    async def best(self, text, partition=P):
        found = self.index.best(partition, question_of(text), await self.embedder.embed(text))
        return found and found.known.record.entry


@pytest.fixture
def kit():
    return Kit()


async def test_the_nearest_of_its_partition(kit):
    await kit.add("how do I bake bread", b"t:bread")
    await kit.add("how do I fix a chair", b"t:chair")
    await kit.add("how do I bake a cake", b"t:cake", partition=Q)
    assert await kit.best("how do I bake a good cake") == b"t:bread"
    assert await kit.best("how do I bake bread", partition=b"r" * 32) is None


async def test_equal_wording_goes_before_the_nearest(kit):
    await kit.add("what are the steps to bake bread", b"t:same")
    await kit.add("how do I bake a bread roll", b"t:near")
    assert await kit.best("how do I bake bread") == b"t:same"


async def test_chinese_is_found_by_wording_first_and_then_by_its_characters(kit):
    await kit.add("怎么取消订单", b"t:cancel")
    await kit.add("在哪里修改密码", b"t:password")
    assert await kit.best("请问如何取消订单？") == b"t:cancel"
    assert await kit.best("怎么取消订单的保险") == b"t:cancel"
    assert await kit.best("怎么修改我的密码") == b"t:password"


async def test_the_languages_of_a_partition_are_apart(kit):
    await kit.add("how do I bake bread", b"t:en")
    assert await kit.best("怎么取消订单") is None
    await kit.add("怎么取消订单", b"t:zh")
    assert await kit.best("how do I cancel an order") == b"t:en"
    assert await kit.best("怎么修改订单") == b"t:zh"
    kit.index.remove(b"t:zh")
    assert await kit.best("怎么修改订单") is None


async def test_a_text_without_content_is_found_by_its_wording_alone(kit):
    await kit.add("怎么办", b"t:what")
    assert await kit.best("该怎么办") == b"t:what"
    kit.index.remove(b"t:what")
    assert await kit.best("该怎么办") is None


async def test_an_answer_has_one_question(kit):
    await kit.add("how do I bake bread", b"t:1")
    await kit.add("how do I fix a chair", b"t:1")
    assert len(kit.index) == 1
    assert await kit.best("how do I bake bread") == b"t:1"
    kit.index.remove(b"t:1")
    assert await kit.best("how do I fix a chair") is None


async def test_expired_questions_are_neither_found_nor_taken(kit):
    await kit.add("how do I bake bread", b"t:1", life_s=5)
    kit.clock.advance(6)
    assert await kit.best("how do I bake bread") is None
    assert len(kit.index) == 0
    await kit.add("how do I bake bread", b"t:2", life_s=-1)
    assert len(kit.index) == 0


async def test_a_tenant_is_forgotten_by_the_beginning_of_its_keys(kit):
    await kit.add("how do I bake bread", b"a:1")
    await kit.add("how do I fix a chair", b"b:1")
    kit.index.remove_prefix(b"a:")
    assert await kit.best("how do I fix a chair") == b"b:1"
    assert len(kit.index) == 1


async def test_where_room_is_short_the_least_worth_goes():
    kit = Kit(max_entries=8)
    await kit.add("how do I bake bread", b"t:dear", cost=10_000)
    for n in range(50):
        await kit.add(f"how do I fix chair number {n}", f"t:{n}".encode(), cost=1)
    assert len(kit.index) == 8
    assert await kit.best("how do I bake bread") == b"t:dear"
