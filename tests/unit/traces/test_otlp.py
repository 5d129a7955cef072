"""OTLP spans as records."""

import pytest
from opentelemetry.proto.collector.trace.v1 import trace_service_pb2
from opentelemetry.proto.common.v1.common_pb2 import AnyValue, ArrayValue, KeyValue, KeyValueList
from opentelemetry.proto.resource.v1.resource_pb2 import Resource
from opentelemetry.proto.trace.v1.trace_pb2 import ResourceSpans, ScopeSpans, Span, Status
from tiermesh.traces.otlp import read_spans


def make_request(*spans, resource=None):
    resource = {"service.name": AnyValue(string_value="router")} if resource is None else resource
    return trace_service_pb2.ExportTraceServiceRequest(
        resource_spans=[
            ResourceSpans(
                resource=Resource(attributes=[KeyValue(key=k, value=v) for k, v in resource.items()]),
                scope_spans=[ScopeSpans(spans=spans)],
            )
        ]
    )


def make_span(**fields):
    return Span(
        **{
            "trace_id": bytes(range(16)),
            "span_id": b"\x01" * 8,
            "name": "Generate",
            "start_time_unix_nano": 10,
            "end_time_unix_nano": 30,
            **fields,
        }
    )


def read_one(*args, **fields):
    (record,), rejected = read_spans(make_request(make_span(**fields), *args))
    assert rejected == 0
    return record


def test_a_span_is_read():
    record = read_one(parent_span_id=b"\x02" * 8, kind=Span.SPAN_KIND_SERVER)
    assert record.trace_id == "000102030405060708090a0b0c0d0e0f"
    assert record.span_id == "01" * 8
    assert record.parent_span_id == "02" * 8
    assert (record.name, record.service, record.kind) == ("Generate", "router", "server")
    assert (record.start_ns, record.end_ns, record.failed) == (10, 30, False)


@pytest.mark.parametrize(
    ("kind", "text"),
    [
        (Span.SPAN_KIND_SERVER, "server"),
        (Span.SPAN_KIND_CLIENT, "client"),
        (Span.SPAN_KIND_INTERNAL, "internal"),
        (Span.SPAN_KIND_PRODUCER, "producer"),
        (Span.SPAN_KIND_CONSUMER, "consumer"),
        (Span.SPAN_KIND_UNSPECIFIED, "internal"),
        (77, "internal"),
    ],
)
def test_kinds(kind, text):
    assert read_one(kind=kind).kind == text


def test_status():
    assert read_one(status=Status(code=Status.STATUS_CODE_ERROR)).failed
    assert not read_one(status=Status(code=Status.STATUS_CODE_OK)).failed
    failed = read_one(status=Status(code=Status.STATUS_CODE_ERROR, message="queue full"))
    assert failed.attributes["otel.status_description"] == "queue full"


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (AnyValue(string_value="问题 one"), "问题 one"),
        (AnyValue(bool_value=True), "true"),
        (AnyValue(int_value=-3), "-3"),
        (AnyValue(double_value=0.25), "0.25"),
        (AnyValue(bytes_value=b"\x00\xff"), "00ff"),
        (AnyValue(), ""),
        (
            AnyValue(array_value=ArrayValue(values=[AnyValue(string_value="钱"), AnyValue(int_value=2)])),
            '["钱", 2]',
        ),
        (
            AnyValue(kvlist_value=KeyValueList(values=[KeyValue(key="a", value=AnyValue(bool_value=False))])),
            '{"a": false}',
        ),
    ],
)
def test_attributes_are_text(value, text):
    assert read_one(attributes=[KeyValue(key="k", value=value)]).attributes == {"k": text}


def test_deep_and_long_values_are_cut():
    value = AnyValue(string_value="deep")
    for _ in range(20):
        value = AnyValue(array_value=ArrayValue(values=[value]))
    assert "deep" not in read_one(attributes=[KeyValue(key="k", value=value)]).attributes["k"]
    assert (
        len(read_one(attributes=[KeyValue(key="k", value=AnyValue(string_value="x" * 9999))]).attributes["k"]) == 4096
    )


def test_of_a_huge_span_only_what_is_shown_is_kept():
    short = KeyValue(key="tiermesh.tier", value=AnyValue(string_value="l1"))
    long = [KeyValue(key=f"k{n}", value=AnyValue(string_value="问" * 50_000)) for n in range(3)]
    record = read_one(
        attributes=[short, *long],
        status=Status(code=Status.STATUS_CODE_ERROR, message="x" * 50_000),
        events=[Span.Event(name="e" * 50_000)],
    )
    assert record.size_bytes < 60_000
    assert record.attributes["tiermesh.tier"] == "l1"
    assert record.attributes["k2"] == "问" * 4096
    assert record.attributes["otel.status_description"] == "x" * 4096
    assert record.failed


def test_attributes_are_the_same_whether_a_span_was_huge_or_not():
    several = [
        KeyValue(key="n", value=AnyValue(int_value=2)),
        KeyValue(key="reasons", value=AnyValue(array_value=ArrayValue(values=[AnyValue(string_value="简单")]))),
        KeyValue(key="text", value=AnyValue(string_value="x" * 5000)),
    ]
    small = read_one(attributes=several).attributes
    huge = read_one(
        attributes=[*several, KeyValue(key="filler", value=AnyValue(bytes_value=bytes(100_000)))]
    ).attributes
    assert {key: value for key, value in huge.items() if key != "filler"} == small


def test_a_parent_of_zeros_is_no_parent():
    assert read_one(parent_span_id=bytes(8)).parent_span_id == ""


def test_an_end_before_its_start_is_no_time_at_all():
    assert read_one(start_time_unix_nano=50, end_time_unix_nano=20).end_ns == 50
    assert read_one(end_time_unix_nano=0).end_ns == 10


@pytest.mark.parametrize("resource", [{}, {"service.name": AnyValue()}, {"other": AnyValue(string_value="x")}])
def test_a_sender_without_a_name(resource):
    records, _ = read_spans(make_request(make_span(), resource=resource))
    assert records[0].service == "unknown"


@pytest.mark.parametrize(
    "fields",
    [
        {"trace_id": b""},
        {"trace_id": bytes(16)},
        {"trace_id": b"\x01" * 15},
        {"span_id": b""},
        {"span_id": bytes(8)},
        {"span_id": b"\x01" * 9},
        {"parent_span_id": b"\x01" * 3},
    ],
)
def test_a_span_that_makes_no_sense_is_left_out_and_the_rest_is_kept(fields):
    records, rejected = read_spans(make_request(make_span(**fields), make_span()))
    assert len(records) == 1
    assert rejected == 1


def test_an_empty_request():
    assert read_spans(trace_service_pb2.ExportTraceServiceRequest()) == ([], 0)
