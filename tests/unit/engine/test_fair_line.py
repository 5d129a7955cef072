from tiermesh.engine.fair_line import FairLine
from tiermesh.engine.ports import Lane
from tiermesh.engine.ticket import Ticket


def ticket(tenant: str, at: float = 0.0, length: int = 0) -> Ticket:
    return Ticket(Lane.INTERACTIVE, at, tenant, length)


def line_of(*tickets: Ticket, **weights: float) -> FairLine:
    line = FairLine(weights)
    for one in tickets:
        line.add(one)
    return line


def order(line: FairLine, count: int, bucket: int | None = None) -> list[Ticket]:
    started = []
    for _ in range(count):
        head = line.head(bucket)
        line.start(head)
        started.append(head)
    return started


def test_tenants_take_turns_however_many_each_has_sent():
    line = line_of(*(ticket("flood", n) for n in range(6)), ticket("calm", 10), ticket("calm", 11))
    assert [t.tenant for t in order(line, 8)] == ["flood", "calm", "flood", "calm", "flood", "flood", "flood", "flood"]


def test_a_tenant_of_twice_the_weight_gets_two_turns_for_one():
    waiting = [ticket(name, n) for n in range(9) for name in ("big", "small")]
    started = [t.tenant for t in order(line_of(*waiting, big=2.0), 9)]
    assert started.count("big") == 6


def test_a_tenants_own_tickets_keep_their_order():
    mine = [ticket("a", n) for n in range(4)]
    assert order(line_of(*mine), 4) == mine


def test_who_comes_back_has_saved_nothing_up():
    line = line_of(*(ticket("a", n) for n in range(5)))
    order(line, 3)
    for n in range(5):
        line.add(ticket("b", 10 + n))
    # It starts level with the other, instead of with three turns that it missed.
    assert [t.tenant for t in order(line, 4)].count("b") <= 3


def test_like_lengths_go_together_but_nobody_is_passed_by_for_ever():
    long = ticket("a", 0, length=1000)
    line = line_of(long, *(ticket("a", 1 + n, length=10) for n in range(20)))
    started = order(line, 10, bucket=(10).bit_length())
    assert started[0].length == 10
    assert started.index(long) == 8


def test_the_heaviest_tenants_youngest_is_crowded_out_and_never_for_an_equal():
    flood = [ticket("flood", n) for n in range(3)]
    line = line_of(*flood, ticket("calm"))
    assert line.crowd_out("new") is flood[-1]
    assert line.crowd_out("calm") is flood[-1]
    assert line.crowd_out("flood") is None
    assert line_of(ticket("a"), ticket("b")).crowd_out("c") is None
    assert FairLine({}).crowd_out(None) is None


def test_how_many_are_ahead_counts_only_those_whose_turn_comes_first():
    line = line_of(*(ticket("flood", n) for n in range(10)), ticket("calm"))
    assert line.ahead_of("new") == 2
    assert line.ahead_of("calm") == 3
    assert line.ahead_of("flood") == 11


def test_an_empty_line_remembers_nobody():
    line = line_of(ticket("a"))
    order(line, 1)
    assert len(line) == 0
    assert line._finish == {}
    assert line.oldest_arrival() == float("inf")
