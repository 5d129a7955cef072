"""What is forgotten first."""

from tiermesh.cache.eviction import HALF_LIFE_S, Worth, least_worth


def test_saving_per_byte_then_recency():
    sample = [
        ("dear", Worth(1000, 100, 0)),
        ("cheap", Worth(10, 100, 0)),
        ("bulky", Worth(1000, 1_000_000, 0)),
    ]
    assert least_worth(sample, 0) == "bulky"
    assert least_worth(sample[:2], 0) == "cheap"


def test_worth_halves_without_use():
    worth = Worth(999, 10, 0)
    assert worth.at(HALF_LIFE_S) == worth.at(0) / 2
    assert least_worth([("old", Worth(100, 10, 0)), ("new", Worth(60, 10, HALF_LIFE_S))], HALF_LIFE_S) == "old"
    assert worth.at(-5) == worth.at(0)
