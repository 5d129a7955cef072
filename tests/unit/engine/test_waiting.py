import pytest
from tiermesh.engine.ports import Lane
from tiermesh.engine.waiting import Place, Ticket, WaitingLine

PATIENCE = 10.0


def line(slots: int = 2, limit: int = 3, reserved: int = 0) -> WaitingLine:
    return WaitingLine(slots=slots, limit=limit, reserved=reserved, batch_patience=PATIENCE)


def arrive(waiting: WaitingLine, lane: Lane = Lane.INTERACTIVE, at: float = 0.0) -> Ticket:
    ticket = Ticket(lane, at)
    waiting.arrive(ticket)
    return ticket


def test_slots_are_given_in_order_of_arrival_and_the_next_waits():
    waiting = line()
    first, second, third, fourth = (arrive(waiting) for _ in range(4))
    assert [t.place for t in (first, second, third, fourth)] == [
        Place.RUNNING,
        Place.RUNNING,
        Place.WAITING,
        Place.WAITING,
    ]
    assert waiting.leave(first, 1.0) == [third]
    assert (waiting.running_count, waiting.waiting_count) == (2, 1)


def test_a_full_line_turns_away():
    waiting = line(slots=1, limit=1)
    arrive(waiting)
    arrive(waiting)
    assert arrive(waiting).place is Place.GONE
    assert waiting.waiting_count == 1


def test_without_a_line_only_slots_are_given():
    waiting = line(slots=1, limit=0)
    assert arrive(waiting).place is Place.RUNNING
    assert arrive(waiting).place is Place.GONE


def test_interactive_goes_before_batch_that_came_first():
    waiting = line(slots=1)
    running = arrive(waiting)
    batch = arrive(waiting, Lane.BATCH)
    interactive = arrive(waiting)
    assert waiting.leave(running, 1.0) == [interactive]
    assert waiting.leave(interactive, 2.0) == [batch]


def test_batch_that_has_waited_long_is_not_passed_by():
    waiting = line(slots=1)
    running = arrive(waiting)
    batch = arrive(waiting, Lane.BATCH, at=0.0)
    arrive(waiting, at=PATIENCE)
    assert waiting.leave(running, PATIENCE) == [batch]


def test_batch_never_takes_the_reserved_slots():
    waiting = line(slots=4, reserved=1, limit=10)
    batch = [arrive(waiting, Lane.BATCH) for _ in range(5)]
    assert [t.place for t in batch].count(Place.RUNNING) == 3
    person = arrive(waiting)
    assert person.place is Place.RUNNING
    # The slot that the person gives back stays reserved.
    assert waiting.leave(person, 1.0) == []
    assert waiting.leave(batch[0], 1.0) == [batch[3]]


def test_an_interactive_arrival_displaces_the_youngest_batch_from_a_full_line():
    waiting = line(slots=1, limit=2)
    arrive(waiting)
    older, younger = arrive(waiting, Lane.BATCH), arrive(waiting, Lane.BATCH)
    person = Ticket(Lane.INTERACTIVE, 0.0)
    assert waiting.arrive(person) is younger
    assert (older.place, younger.place, person.place) == (Place.WAITING, Place.GONE, Place.WAITING)
    assert waiting.arrive(Ticket(Lane.BATCH, 0.0)) is None
    assert waiting.waiting_count == 2


def test_leaving_the_line_frees_a_place_and_no_slot():
    waiting = line(slots=1, limit=1)
    arrive(waiting)
    gone = arrive(waiting)
    assert waiting.leave(gone, 1.0) == []
    assert arrive(waiting).place is Place.WAITING
    assert waiting.leave(gone, 1.0) == []
    assert waiting.running_count == 1


def test_all_slots_cannot_be_reserved():
    with pytest.raises(ValueError, match="reserved must be from 0 to 1"):
        line(slots=2, reserved=2)
