"""A replica's own memory."""

import random

import pytest
from harness.answers import make_answer
from tiermesh.cache.local import Local, LocalAnswers
from tiermesh.shared.testing import FakeClock

TOKEN = bytes(16)


@pytest.fixture
def clock():
    return FakeClock()


def layer(clock, **limits):
    made = LocalAnswers(
        **{"max_entries": 10, "max_bytes": 10_000, "hold_s": 60, **limits}, clock=clock, rng=random.Random(2)
    )
    made.is_current = lambda: True
    return made


def test_keeps_and_drops(clock):
    local = layer(clock)
    answer = make_answer("x")
    local.put(b"t:a", Local(answer, 7, TOKEN), epoch=local.epoch, lives_s=900)
    assert local.get(b"t:a") == Local(answer, 7, TOKEN)
    local.drop(b"t:a")
    assert local.get(b"t:a") is None
    assert local.size_bytes == 0


def test_what_was_read_before_a_change_is_not_kept_after_it(clock):
    local = layer(clock)
    epoch = local.epoch
    local.drop(b"t:a")
    local.put(b"t:a", Local(make_answer("old"), 7, TOKEN), epoch=epoch, lives_s=900)
    assert local.get(b"t:a") is None


def test_says_nothing_while_changes_are_not_heard_of(clock):
    local = layer(clock)
    local.put(b"t:a", Local(make_answer("x"), 7, TOKEN), epoch=local.epoch, lives_s=900)
    local.is_current = lambda: False
    assert local.get(b"t:a") is None


def test_asks_the_store_again_after_a_while(clock):
    local = layer(clock)
    local.put(b"t:a", Local(make_answer("x"), 7, TOKEN), epoch=local.epoch, lives_s=900)
    clock.advance(61)
    assert local.get(b"t:a") is None


def test_a_tenant_and_everything(clock):
    local = layer(clock)
    for key in (b"t:a", b"t:b", b"u:a"):
        local.put(key, Local(make_answer("x"), 7, TOKEN), epoch=local.epoch, lives_s=900)
    local.drop_prefix(b"t:")
    assert len(local) == 1
    local.drop_prefix(b"")
    assert len(local) == 0


def test_limits_hold_and_what_saves_most_stays(clock):
    local = layer(clock, max_entries=5)
    dear = make_answer("x")
    dear.usage.completion_token_count = 100_000
    local.put(b"t:dear", Local(dear, 7, TOKEN), epoch=local.epoch, lives_s=900)
    for n in range(100):
        local.put(f"t:{n}".encode(), Local(make_answer("x"), 7, TOKEN), epoch=local.epoch, lives_s=900)
        assert len(local) <= 5
    assert local.get(b"t:dear") is not None
    small = layer(clock, max_bytes=200)
    for n in range(20):
        small.put(f"t:{n}".encode(), Local(make_answer("x" * 50), 7, TOKEN), epoch=small.epoch, lives_s=900)
        assert small.size_bytes <= 200
    small.put(b"t:huge", Local(make_answer("x" * 500), 7, TOKEN), epoch=small.epoch, lives_s=900)
    assert small.get(b"t:huge") is None


def test_zero_entries_turn_it_off(clock):
    local = layer(clock, max_entries=0)
    local.put(b"t:a", Local(make_answer("x"), 7, TOKEN), epoch=local.epoch, lives_s=900)
    assert local.get(b"t:a") is None


def test_no_longer_than_the_store_keeps_it(clock):
    local = layer(clock)
    local.put(b"t:a", Local(make_answer("x"), 7, TOKEN), epoch=local.epoch, lives_s=5)
    local.put(b"t:b", Local(make_answer("x"), 7, TOKEN), epoch=local.epoch, lives_s=0)
    assert local.get(b"t:b") is None
    clock.advance(4)
    assert local.get(b"t:a") is not None
    clock.advance(2)
    assert local.get(b"t:a") is None
