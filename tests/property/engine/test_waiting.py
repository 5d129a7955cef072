"""What holds of the waiting line whatever comes and goes."""

from hypothesis import given
from hypothesis import strategies as st
from tiermesh.engine.ports import Lane
from tiermesh.engine.tokens import split_tokens
from tiermesh.engine.waiting import Place, Ticket, WaitingLine

steps = st.lists(st.one_of(st.sampled_from(Lane), st.integers(0, 30)), max_size=60)


@given(slots=st.integers(1, 6), limit=st.integers(0, 6), reserved=st.integers(0, 5), steps=steps)
def test_limits_hold_and_no_slot_stands_idle(slots: int, limit: int, reserved: int, steps: list[Lane | int]):
    reserved = min(reserved, slots - 1)
    line = WaitingLine(slots=slots, limit=limit, reserved=reserved, batch_patience=5.0)
    tickets: list[Ticket] = []
    for now, step in enumerate(steps):
        if isinstance(step, Lane):
            tickets.append(Ticket(step, float(now)))
            line.arrive(tickets[-1])
        elif tickets:
            line.leave(tickets[step % len(tickets)], float(now))
        running = [ticket for ticket in tickets if ticket.place is Place.RUNNING]
        waiting = [ticket for ticket in tickets if ticket.place is Place.WAITING]
        assert (line.running_count, line.waiting_count) == (len(running), len(waiting))
        assert len(running) <= slots
        assert len(waiting) <= limit
        running_batch = sum(ticket.lane is Lane.BATCH for ticket in running)
        assert running_batch <= slots - reserved
        if len(running) < slots:
            # Nobody waits who could run.
            assert all(ticket.lane is Lane.BATCH for ticket in waiting)
            assert not waiting or running_batch == slots - reserved
    for ticket in tickets:
        line.leave(ticket, 1e6)
    assert (line.running_count, line.waiting_count) == (0, 0)


@given(st.text())
def test_token_pieces_joined_are_the_text(text: str):
    assert "".join(split_tokens(text)) == text
