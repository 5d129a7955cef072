"""What the router takes a circuit breaker for."""

import pytest
from tiermesh.api.common.v1 import chat_pb2
from tiermesh.router.tiers.breakers import MEMORY_S, Breakers
from tiermesh.shared.testing import FakeClock

BATCH, INTERACTIVE, UNSET = chat_pb2.PRIORITY_BATCH, chat_pb2.PRIORITY_INTERACTIVE, chat_pb2.PRIORITY_UNSPECIFIED


@pytest.fixture
def clock():
    return FakeClock()


@pytest.fixture
def breakers(clock):
    return Breakers(clock)


def test_a_refusal_opens_one_priority_of_one_tier(breakers):
    breakers.refused("l1", BATCH)
    assert breakers.open_for(BATCH) == {"l1"}
    assert breakers.open_for(INTERACTIVE) == frozenset()
    assert list(breakers.open()) == [("l1", "batch")]


def test_who_names_no_priority_waits(breakers):
    breakers.refused("l1", UNSET)
    assert breakers.open_for(INTERACTIVE) == breakers.open_for(UNSET) == {"l1"}


def test_what_gets_through_closes_it_but_only_for_its_own_priority(breakers):
    breakers.refused("l1", BATCH)
    breakers.refused("l2", BATCH)
    breakers.passed("l1", INTERACTIVE)
    assert breakers.open_for(BATCH) == {"l1", "l2"}
    breakers.passed("l1", BATCH)
    assert breakers.open_for(BATCH) == {"l2"}


def test_with_nobody_asking_it_does_not_stay_open(breakers, clock):
    breakers.refused("l1", BATCH)
    clock.advance(MEMORY_S * 0.9)
    breakers.refused("l1", BATCH)
    clock.advance(MEMORY_S * 0.9)
    assert breakers.open_for(BATCH) == {"l1"}
    clock.advance(MEMORY_S * 0.2)
    assert not list(breakers.open())
