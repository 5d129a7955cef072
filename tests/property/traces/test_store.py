"""Whatever arrives, in whatever order, the store stays within its bounds and its sums are right."""

from hypothesis import given
from hypothesis import strategies as st
from tiermesh.traces.records import SpanRecord
from tiermesh.traces.store import Bounds, TraceStore

IDS = st.sampled_from("abcdef")
SPAN = st.builds(
    SpanRecord,
    trace_id=IDS.map(lambda c: c * 32),
    span_id=IDS.map(lambda c: c * 16),
    parent_span_id=st.one_of(st.just(""), IDS.map(lambda c: c * 16)),
    name=st.text(max_size=5),
    service=st.just("s"),
    kind=st.just("server"),
    start_ns=st.integers(0, 2**64 - 1),
    end_ns=st.integers(0, 2**64 - 1),
    failed=st.booleans(),
    encoded=st.binary(max_size=400),
)
BOUNDS = st.builds(
    Bounds, traces=st.integers(1, 4), spans_per_trace=st.integers(1, 4), total_bytes=st.integers(0, 10_000)
)


@given(bounds=BOUNDS, batches=st.lists(st.lists(SPAN, max_size=6), max_size=8))
def test_bounds_hold_and_sums_are_right(bounds, batches):
    store = TraceStore(bounds)
    for batch in batches:
        store.add(batch)
        assert len(store) <= bounds.traces
        assert store.size_bytes <= bounds.total_bytes
        kept = [store.get(summary.trace_id) for summary in store.latest(100)]
        assert all(1 <= len(spans) <= bounds.spans_per_trace for spans in kept)
        assert store.size_bytes == sum(span.size_bytes for spans in kept for span in spans)
        for spans in kept:
            assert [span.start_ns for span in spans] == sorted(span.start_ns for span in spans)
        starts = [summary.start_ns for summary in store.latest(100)]
        assert starts == sorted(starts, reverse=True)
