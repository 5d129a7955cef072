"""Which threshold is recommended."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tiermesh.cache.semantic.tune import Scored, outcome, recommend, upper_bound

PAIRS = [
    Scored(0.95, False, True),
    Scored(0.90, False, True),
    Scored(0.85, False, False),
    Scored(0.80, False, True),
    Scored(0.99, True, False),
    Scored(0.70, False, False),
]


def test_what_a_threshold_does():
    found = outcome(PAIRS, 0.8)
    assert found.hit_rate == 1.0
    assert found.false_hit_rate == pytest.approx(1 / 6)
    assert found.false_hit_bound > found.false_hit_rate


def test_the_lowest_that_keeps_to_the_target():
    assert recommend(PAIRS, target=0).threshold == 0.9
    assert recommend(PAIRS, target=0.2).threshold == 0.8
    assert recommend(PAIRS, target=1).threshold == 0.0
    assert recommend(PAIRS, target=1, least=0.75).threshold == 0.75


def test_where_nothing_keeps_to_the_target_nothing_hits():
    assert recommend([Scored(0.9, False, False)], target=0).hit_rate == 0


def test_no_pairs():
    with pytest.raises(ValueError, match="no labelled pairs"):
        recommend([], target=0.1)


def test_the_bound_is_that_of_wilson():
    assert upper_bound(0, 100) == pytest.approx(0.0370, abs=0.0001)
    assert upper_bound(5, 100) == pytest.approx(0.1118, abs=0.0001)


scored = st.builds(Scored, st.floats(0, 1), st.booleans(), st.booleans())


@given(st.lists(scored, min_size=1, max_size=30), st.floats(0, 1))
def test_the_target_is_kept_whatever_the_pairs(pairs, target):
    assert recommend(pairs, target=target).false_hit_rate <= target or recommend(pairs, target=target).threshold == 1.0
