"""What holds of turns whatever comes: shares, order, and that nobody waits for ever."""

from hypothesis import given
from hypothesis import strategies as st
from tiermesh.engine.fair_line import FairLine
from tiermesh.engine.ports import Lane
from tiermesh.engine.ticket import Place, Ticket
from tiermesh.engine.waiting import WaitingLine

weights = st.dictionaries(st.sampled_from("abcd"), st.sampled_from([0.5, 1.0, 2.0, 3.0]), min_size=2)


@given(weights=weights, starts=st.integers(1, 60), churn=st.lists(st.sampled_from("abcd"), max_size=20))
def test_tenants_that_always_wait_share_within_one_prompt(weights: dict[str, float], starts: int, churn: list[str]):
    line = FairLine(weights)
    for n in range(starts * 4):
        for tenant in weights:
            line.add(Ticket(Lane.INTERACTIVE, float(n), tenant))
    started = dict.fromkeys(weights, 0)
    for n in range(starts):
        # Somebody else comes and goes meanwhile.
        if n < len(churn) and churn[n] not in weights:
            line.add(Ticket(Lane.INTERACTIVE, 1e6 + n, churn[n]))
        head = line.head()
        line.start(head)
        if head.tenant in started:
            started[head.tenant] += 1
    for one in weights:
        for other in weights:
            difference = started[one] / weights[one] - started[other] / weights[other]
            assert abs(difference) <= 1 / weights[one] + 1 / weights[other] + 1e-6


steps = st.lists(
    st.one_of(st.tuples(st.sampled_from(Lane), st.sampled_from("abc"), st.integers(0, 2000)), st.integers(0, 30)),
    max_size=60,
)


@given(slots=st.integers(1, 5), steps=steps, like=st.booleans(), patience=st.sampled_from([0.0, 5.0, 1e9]))
def test_whoever_waits_starts_once_those_who_run_leave(slots: int, steps: list, like: bool, patience: float):
    line = WaitingLine(
        slots=slots, limit=20, reserved=slots // 4, batch_patience=patience, weights={"a": 2.0}, like_with_like=like
    )
    tickets: list[Ticket] = []
    for now, step in enumerate(steps):
        if isinstance(step, tuple):
            tickets.append(Ticket(step[0], float(now), step[1], step[2]))
            line.arrive(tickets[-1])
        elif tickets:
            line.leave(tickets[step % len(tickets)], float(now))
    waiting = [ticket for ticket in tickets if ticket.place is Place.WAITING]
    for _ in range(len(tickets)):
        for ticket in [ticket for ticket in tickets if ticket.place is Place.RUNNING]:
            line.leave(ticket, 1e6)
    assert line.waiting_count == 0
    assert all(ticket.place is Place.GONE for ticket in waiting)


@given(ahead=st.integers(0, 30), people=st.integers(0, 200))
def test_batch_work_that_is_overdue_starts_within_eight_starts_each(ahead: int, people: int):
    line = WaitingLine(slots=1, limit=500, reserved=0, batch_patience=10.0)
    running = Ticket(Lane.INTERACTIVE, 0.0)
    line.arrive(running)
    batch = [Ticket(Lane.BATCH, 0.0) for _ in range(ahead + 1)]
    for ticket in batch:
        line.arrive(ticket)
    for _ in range(people):
        line.arrive(Ticket(Lane.INTERACTIVE, 20.0))
    starts = 0
    while batch[-1].place is Place.WAITING:
        (running,) = line.leave(running, 20.0)
        starts += 1
    assert starts <= 8 * (ahead + 1)


@given(flood=st.integers(0, 40), limit=st.integers(2, 20))
def test_a_full_line_still_has_room_for_a_tenant_with_nothing_waiting(flood: int, limit: int):
    line = WaitingLine(slots=1, limit=limit, reserved=0, batch_patience=10.0)
    for n in range(flood):
        line.arrive(Ticket(Lane.INTERACTIVE, float(n), "flood"))
    calm = Ticket(Lane.INTERACTIVE, 100.0, "calm")
    displaced = line.arrive(calm)
    assert calm.place is not Place.GONE
    assert displaced is None or displaced.tenant == "flood"
    assert line.waiting_count <= limit


@given(sizes=st.lists(st.integers(-3, 40), max_size=20), arrivals=st.integers(0, 40))
def test_a_resized_line_never_starts_more_than_it_may(sizes: list[int], arrivals: int):
    line = WaitingLine(slots=8, limit=50, reserved=2, batch_patience=10.0)
    tickets = [Ticket(Lane.INTERACTIVE, 0.0) for _ in range(arrivals)]
    for ticket in tickets:
        line.arrive(ticket)
    for size in sizes:
        before = line.running_count
        line.resize(size, 1.0)
        assert 1 <= line.slots <= 8
        assert line.running_count <= max(before, line.slots)
        running = next((t for t in tickets if t.place is Place.RUNNING), None)
        if running is not None:
            line.leave(running, 1.0)
