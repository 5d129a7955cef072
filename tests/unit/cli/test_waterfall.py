"""Traces as text."""

import pytest
from rich.cells import cell_len
from tiermesh.api.trace.v1 import trace_pb2
from tiermesh.client.cli.waterfall import draw, lay_out


def span(identity, parent="", *, start=0.0, ms=1.0, name=None, service="tiermesh-router", failed=False, **attributes):
    found = trace_pb2.Span(
        span_id=identity, parent_span_id=parent, name=name or identity, service=service, failed=failed
    )
    found.start_time.FromNanoseconds(int((1000 + start) * 1e6))
    found.duration.FromNanoseconds(int(ms * 1e6))
    for key, value in attributes.items():
        found.attributes[key.replace("__", ".")] = value
    return found


def test_children_come_below_their_parent_in_order_of_start_whatever_order_they_arrived_in():
    spans = [
        span("late", "root", start=5),
        span("grandchild", "early", start=2),
        span("root"),
        span("early", "root", start=1),
    ]
    assert [(line.name, line.depth) for line in lay_out(spans)] == [
        ("root", 0),
        ("early", 1),
        ("grandchild", 2),
        ("late", 1),
    ]


def test_a_span_whose_parent_is_not_here_is_a_root():
    assert [line.depth for line in lay_out([span("a", "elsewhere"), span("b", "a", start=1)])] == [0, 1]


def test_spans_that_are_each_others_parents_do_not_hang():
    assert lay_out([span("a", "b"), span("b", "a")]) == []


def test_a_deep_trace_is_laid_out():
    spans = [span("0"), *(span(str(n), str(n - 1), start=n) for n in range(1, 3000))]
    assert lay_out(spans)[-1].depth == 2999


def test_an_empty_trace_draws_nothing():
    assert draw(lay_out([]), width=80) == []


def test_bars_start_and_end_where_the_span_did():
    first, second = draw(lay_out([span("root", ms=100), span("half", "root", start=50, ms=50)]), width=120)
    bar = first.count("█")
    assert bar > 10
    assert second.count("█") == pytest.approx(bar / 2, abs=1)
    assert second.index("█") == first.index("█") + bar // 2


def test_a_span_of_no_length_can_still_be_seen():
    _, dot = draw(lay_out([span("root", ms=1000), span("dot", "root", start=999.9, ms=0)]), width=120)
    assert any(mark in dot for mark in "▏▎▍▌▋▊▉█")


def test_key_attributes_are_shown_in_a_fixed_order_and_others_only_when_asked_for():
    one = span("a", tiermesh__ttft_ms="5", tiermesh__tier="l1", tiermesh__odd="x", rpc__system="grpc")
    (line,) = draw(lay_out([one]), width=120)
    assert line.endswith("tier=l1 ttft_ms=5")
    (line,) = draw(lay_out([one], everything=True), width=120)
    assert "tiermesh.odd=x" in line
    assert "rpc.system=grpc" in line


def test_failures_are_marked_and_explained():
    (line,) = draw(lay_out([span("a", failed=True, error__type="QUEUE_FULL")]), width=120)
    assert "✗" in line
    assert "error=QUEUE_FULL" in line


def test_columns_line_up_for_wide_characters():
    lines = draw(lay_out([span("root", name="路由", ms=10), span("b", "root", name="abcd", ms=10)]), width=100)
    starts = {cell_len(line[: line.index("█")]) for line in lines}
    assert len(starts) == 1
