"""The budget algebra: a budget only ever shrinks."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tiermesh.shared.budget import Budget
from tiermesh.shared.errors import BudgetExhausted
from tiermesh.shared.testing import FakeClock

seconds = st.floats(min_value=0, max_value=1e5, allow_nan=False)
steps = st.lists(st.tuples(st.none() | seconds, seconds, seconds), max_size=8)


@given(total=seconds, steps=steps)
def test_children_never_outlive_parents_however_time_passes(total, steps):
    clock = FakeClock()
    budget = Budget.of(total, clock)
    for cap, reserve, elapsed in steps:
        child = budget.child(cap=cap, reserve=reserve)
        assert child.deadline <= budget.deadline
        assert child.remaining() <= max(0.0, budget.remaining() - reserve) + 1e-6
        if cap is not None:
            assert child.remaining() <= cap + 1e-6
        clock.advance(elapsed)
        budget = child
    assert budget.remaining() >= 0.0


@given(total=seconds, cap=seconds, reserve=seconds)
def test_child_is_min_of_cap_and_remaining_less_reserve(total, cap, reserve):
    budget = Budget.of(total, FakeClock())
    expected = max(0.0, min(total - reserve, cap))
    assert budget.child(cap=cap, reserve=reserve).remaining() == pytest.approx(expected, abs=1e-6)


@given(total=st.floats(min_value=0.001, max_value=1e4))
def test_require_refuses_from_the_deadline_on(total):
    clock = FakeClock()
    budget = Budget.of(total, clock)
    assert budget.require("work") == pytest.approx(total)
    clock.advance(total + 1e-6)
    assert budget.exhausted
    with pytest.raises(BudgetExhausted, match="work"):
        budget.require("work")


@pytest.mark.parametrize(("cap", "reserve"), [(-1.0, 0.0), (None, -0.1)])
def test_negative_shares_are_defects(cap, reserve):
    with pytest.raises(ValueError, match="negative"):
        Budget.of(1, FakeClock()).child(cap=cap, reserve=reserve)
