"""The last traces, within bounds."""

from dataclasses import replace

from tiermesh.traces.records import SpanRecord
from tiermesh.traces.store import Bounds, TraceStore

SPAN = SpanRecord("a" * 32, "1" * 16, "", "root", "router", "server", 1_000, 2_000, False)


def span(trace="a", number=1, parent=0, **fields):
    ids = {"trace_id": trace * 32, "span_id": f"{number:016x}", "parent_span_id": f"{parent:016x}" if parent else ""}
    return replace(SPAN, **ids, **fields)


def make_store(traces=10, **bounds):
    return TraceStore(Bounds(traces=traces, **bounds))


def test_spans_come_in_order_of_start_whatever_order_they_arrived_in():
    store = make_store()
    store.add(
        [span(number=3, parent=2, start_ns=30), span(number=1, start_ns=10), span(number=2, parent=1, start_ns=20)]
    )
    assert [int(s.span_id, 16) for s in store.get("a" * 32)] == [1, 2, 3]


def test_of_spans_that_start_together_the_outer_comes_first():
    store = make_store()
    store.add([span(number=1, parent=2, start_ns=10, end_ns=15), span(number=2, start_ns=10, end_ns=20)])
    assert [int(s.span_id, 16) for s in store.get("a" * 32)] == [2, 1]


def test_an_unknown_trace_is_none():
    assert make_store().get("b" * 32) is None


def test_a_trace_that_arrives_in_pieces_is_one():
    store = make_store()
    store.add([span(number=1)])
    store.add([span(number=2, parent=1)])
    assert len(store.get("a" * 32)) == 2
    assert len(store) == 1


def test_a_span_that_comes_again_is_not_counted_twice():
    store = make_store()
    store.add([span(name="first")])
    size = store.size_bytes
    store.add([span(name="again")])
    assert [s.name for s in store.get("a" * 32)] == ["again"]
    assert store.size_bytes == size


def test_the_trace_that_was_not_touched_longest_leaves_first():
    store = make_store(traces=2)
    store.add([span("a"), span("b")])
    store.add([span("a", number=2, parent=1)])
    store.add([span("c")])
    assert store.get("b" * 32) is None
    assert len(store.get("a" * 32)) == 2
    assert store.get("c" * 32) is not None


def test_spans_of_one_trace_are_bounded():
    store = make_store(spans_per_trace=3)
    store.add([span(number=n) for n in range(1, 6)])
    assert len(store.get("a" * 32)) == 3
    assert store.dropped_spans == 2
    store.add([span(number=1, name="still replaced")])
    assert "still replaced" in {s.name for s in store.get("a" * 32)}


def test_memory_is_bounded():
    store = make_store(traces=1000, total_bytes=20_000)
    for n in range(1, 200):
        store.add([span(f"{n % 16:x}", number=n, encoded=b"v" * 1000)])
        assert store.size_bytes <= 20_000
    assert 1 <= len(store) < 16


def test_a_single_trace_larger_than_all_memory_does_not_stay():
    store = make_store(total_bytes=1000)
    store.add([span(encoded=b"v" * 2000)])
    assert len(store) == 0
    assert store.size_bytes == 0
    store.add([span("b")])
    assert len(store) == 1


def test_summaries_are_newest_first_and_whole():
    store = make_store()
    store.add([span("a", start_ns=100, end_ns=200)])
    store.add(
        [
            span("b", number=2, parent=1, start_ns=310, end_ns=500, failed=True, name="child"),
            span("b", number=1, start_ns=300, end_ns=400, name="root b"),
        ]
    )
    newest, oldest = store.latest(10)
    assert (newest.trace_id, newest.root_name, newest.span_count, newest.failed) == ("b" * 32, "root b", 2, True)
    assert (newest.start_ns, newest.end_ns) == (300, 500)
    assert (oldest.trace_id, oldest.failed) == ("a" * 32, False)
    assert store.latest(1) == [newest]


def test_without_a_root_the_first_span_with_no_parent_here_stands_for_it():
    store = make_store()
    store.add(
        [
            span(number=3, parent=2, start_ns=5, name="early child"),
            span(number=2, parent=99, start_ns=10, name="entry"),
            span(number=4, parent=98, start_ns=20, name="later entry"),
        ]
    )
    assert store.latest(1)[0].root_name == "entry"


def test_a_circle_of_parents_is_harmless():
    store = make_store()
    store.add([span(number=1, parent=2), span(number=2, parent=1)])
    assert store.latest(1)[0].span_count == 2
    assert len(store.get("a" * 32)) == 2
