"""What waits to be forwarded."""

from opentelemetry.proto.collector.trace.v1 import trace_service_pb2
from opentelemetry.proto.trace.v1.trace_pb2 import ResourceSpans, ScopeSpans, Span
from tiermesh.traces.backlog import Backlog


def test_first_in_first_out_joined_up_to_a_size():
    backlog = Backlog(batch_bytes=10)
    for request in (b"aaaa", b"bbbb", b"cccc"):
        backlog.add(request)
    assert backlog.take() == b"aaaabbbb"
    assert backlog.take() == b"cccc"
    assert backlog.take() == b""
    assert backlog.size_bytes == 0


def test_a_request_larger_than_a_batch_leaves_alone():
    backlog = Backlog(batch_bytes=3)
    backlog.add(b"aaaaaa")
    backlog.add(b"b")
    assert [backlog.take(), backlog.take()] == [b"aaaaaa", b"b"]


def test_the_oldest_are_dropped_when_it_is_full():
    backlog = Backlog(max_bytes=10)
    for request in (b"aaaa", b"bbbb", b"cccc"):
        backlog.add(request)
    assert backlog.dropped_requests == 1
    assert backlog.size_bytes == 8
    assert backlog.take() == b"bbbbcccc"


def test_a_request_larger_than_everything_is_dropped():
    backlog = Backlog(max_bytes=3)
    backlog.add(b"aaaa")
    assert backlog.dropped_requests == 1
    assert backlog.take() == b""


def test_joined_requests_are_one_request_with_all_spans():
    backlog = Backlog()
    for name in ("one", "two", "three"):
        spans = [ScopeSpans(spans=[Span(name=name)])]
        backlog.add(
            trace_service_pb2.ExportTraceServiceRequest(
                resource_spans=[ResourceSpans(scope_spans=spans)]
            ).SerializeToString()
        )
    joined = trace_service_pb2.ExportTraceServiceRequest.FromString(backlog.take())
    assert [r.scope_spans[0].spans[0].name for r in joined.resource_spans] == ["one", "two", "three"]
