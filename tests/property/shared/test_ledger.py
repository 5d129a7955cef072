"""The ledger's algebra: its parts sum to the whole, however calls follow or overlap each other."""

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tiermesh.shared.ledger import PART_NAMES, Hop, Ledger, Parts
from tiermesh.shared.testing import FakeClock

seconds = st.floats(min_value=0, max_value=600, allow_nan=False)
parts = st.builds(Parts, **dict.fromkeys(PART_NAMES, seconds))


@st.composite
def schedules(draw):
    """Moments at which calls begin and end, in any interleaving, read from a clock that a test moves."""
    clock = FakeClock()
    arrived = clock.monotonic()
    hops = []
    running = []
    for _ in range(draw(st.integers(0, 12))):
        clock.advance(draw(seconds))
        now = clock.monotonic() - arrived
        if running and draw(st.booleans()):
            begin = running.pop(draw(st.integers(0, len(running) - 1)))
            hops.append(Hop("engine", begin, now, draw(parts).within(now - begin), budget_in=draw(seconds)))
        else:
            running.append(now)
    clock.advance(draw(seconds))
    now = clock.monotonic() - arrived
    hops += [Hop("cache", begin, now, Parts(service=now - begin), budget_in=1.0) for begin in running]
    clock.advance(draw(seconds))
    return hops, clock.monotonic() - arrived


def account(hops):
    ledger = Ledger(budget_in=10.0)
    for hop in hops:
        ledger = ledger.add(hop)
    return ledger


@given(schedules())
def test_parts_sum_to_the_total(schedule):
    hops, total = schedule
    statement = account(hops).close(total)
    assert statement.parts.total == pytest.approx(total, abs=1e-6)
    assert all(getattr(statement.parts, name) >= 0 for name in PART_NAMES)


@given(schedules())
def test_every_moment_is_counted_once(schedule):
    hops, total = schedule
    statement = account(hops).close(total)
    edges = sorted({edge for hop in hops for edge in (hop.begin, hop.end)})
    covered = sum(
        right - left for left, right in pairwise(edges) if any(hop.begin <= left and right <= hop.end for hop in hops)
    )
    assert sum(statement.counted) == pytest.approx(covered, abs=1e-6)
    assert all(0 <= counted <= hop.total + 1e-9 for counted, hop in zip(statement.counted, hops, strict=True))


@given(schedules())
def test_each_hops_parts_sum_to_its_time(schedule):
    for hop in schedule[0]:
        assert hop.parts.total == pytest.approx(hop.total, abs=1e-6)


@given(parts, seconds)
def test_parts_are_made_to_fit_without_inventing_any_but_network(known, total):
    fitted = known.within(total)
    assert fitted.total == pytest.approx(total, abs=1e-6)
    for name in PART_NAMES:
        if name != "network":
            assert getattr(fitted, name) <= getattr(known, name) + 1e-9


@given(parts, parts)
def test_adding_parts_adds_totals(one, other):
    assert (one + other).total == pytest.approx(one.total + other.total)
    assert one + Parts() == one


def test_a_hop_that_runs_inside_another_counts_nothing():
    ledger = account(
        [Hop("classifier", 0.1, 0.2, Parts(service=0.1), 1.0), Hop("cache", 0.0, 0.5, Parts(service=0.5), 1.0)]
    )
    statement = ledger.close(0.6)
    assert statement.counted == (0.0, 0.5)
    assert statement.parts == Parts(service=0.5, routing=pytest.approx(0.1))


def test_budgets_out_are_what_is_left():
    hop = Hop("engine", 1.0, 3.0, Parts(decode=2.0), budget_in=1.5)
    assert hop.budget_out == 0.0
    assert Ledger(budget_in=5.0).add(hop).close(4.0).budget_out == 1.0
    assert Ledger(budget_in=5.0, held=0.5).holding(0.25).in_lane("simple").lane == "simple"
