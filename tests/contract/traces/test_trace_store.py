"""The trace store over real connections: a real exporter on one side, a real collector on the other."""

import asyncio
import secrets
from contextlib import asynccontextmanager
from types import SimpleNamespace

import grpc
import pytest
from harness.cache import cache_config
from harness.eventually import eventually
from harness.otlp import OtlpReceiver, running_otlp
from opentelemetry.exporter.otlp.proto.grpc.trace_exporter import OTLPSpanExporter
from opentelemetry.proto.collector.trace.v1 import trace_service_pb2, trace_service_pb2_grpc
from opentelemetry.proto.trace.v1.trace_pb2 import ResourceSpans, ScopeSpans, Span
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.trace import SpanKind, Status, StatusCode
from tiermesh.api.trace.v1 import trace_pb2, trace_pb2_grpc
from tiermesh.shared.clock import SYSTEM_CLOCK
from tiermesh.shared.errors import InvalidRequest, UnknownTrace
from tiermesh.shared.rpc import error_from_rpc, open_channel, open_server
from tiermesh.shared.testing import recorded_tracing
from tiermesh.traces.app import open_forwarder, wire
from tiermesh.traces.receiver import FORWARDED_BY
from tiermesh.traces.store import Bounds, TraceStore


@asynccontextmanager
async def running_traces(collector=None, *, kept=1000, own_address="127.0.0.1:1", address="127.0.0.1:0"):
    """Serves a trace store that forwards to `collector`."""
    store = TraceStore(Bounds(traces=kept))
    identity = secrets.token_hex(4)
    environ = {"OTEL_EXPORTER_OTLP_ENDPOINT": collector} if collector else {}
    with recorded_tracing() as tracing:
        async with (
            open_forwarder(cache_config(), environ, own_address=own_address, identity=identity) as forwarder,
            open_server(
                wire(store, forwarder, identity=identity), address=address, tracing=tracing, default_deadline_s=100
            ) as server,
            open_channel(f"127.0.0.1:{server.port}") as channel,
        ):
            await server.set_serving(True)
            yield SimpleNamespace(
                port=server.port,
                endpoint=f"http://127.0.0.1:{server.port}",
                stub=trace_pb2_grpc.TraceServiceStub(channel),
                otlp=trace_service_pb2_grpc.TraceServiceStub(channel),
                channel=channel,
                forwarder=forwarder,
                identity=identity,
                tracing=tracing,
            )


async def send(traces, work, service="tiermesh-router"):
    """Runs `work` with a tracer whose spans leave by OpenTelemetry's own exporter."""

    def export():
        provider = TracerProvider(resource=Resource.create({"service.name": service}))
        provider.add_span_processor(SimpleSpanProcessor(OTLPSpanExporter(endpoint=traces.endpoint, insecure=True)))
        try:
            return work(provider.get_tracer("test"))
        finally:
            provider.shutdown()

    return await asyncio.to_thread(export)


def one_span(name="Generate"):
    def work(tracer):
        with tracer.start_as_current_span(name) as span:
            return format(span.get_span_context().trace_id, "032x")

    return work


def make_request(name="raw", trace_id=b"\x07" * 16, **fields):
    span = Span(**{"trace_id": trace_id, "span_id": b"\x01" * 8, "name": name, "start_time_unix_nano": 1, **fields})
    return trace_service_pb2.ExportTraceServiceRequest(
        resource_spans=[ResourceSpans(scope_spans=[ScopeSpans(spans=[span])])]
    )


async def test_a_real_exporters_trace_can_be_read():
    def work(tracer):
        with tracer.start_as_current_span("root", kind=SpanKind.SERVER, attributes={"tier": "l1", "n": 2}) as root:
            with tracer.start_as_current_span("child", kind=SpanKind.CLIENT) as child:
                child.set_attribute("reasons", ["short", "简单"])
                child.set_status(Status(StatusCode.ERROR, "queue full"))
            return format(root.get_span_context().trace_id, "032x")

    async with running_traces() as traces:
        before = SYSTEM_CLOCK.wall()
        trace_id = await send(traces, work)
        found = (await traces.stub.GetTrace(trace_pb2.GetTraceRequest(trace_id=trace_id.upper()))).spans
        root, child = found
        assert (root.name, root.kind, root.parent_span_id, root.service) == ("root", "server", "", "tiermesh-router")
        assert (child.name, child.kind, child.parent_span_id) == ("child", "client", root.span_id)
        assert (root.failed, child.failed) == (False, True)
        assert dict(root.attributes) == {"tier": "l1", "n": "2"}
        assert child.attributes["reasons"] == '["short", "简单"]'
        assert child.attributes["otel.status_description"] == "queue full"
        assert abs(root.start_time.ToMilliseconds() / 1000 - before) < 30
        assert root.duration.ToNanoseconds() >= child.duration.ToNanoseconds() > 0
        (summary,) = (await traces.stub.ListTraces(trace_pb2.ListTracesRequest())).traces
        assert (summary.trace_id, summary.root_name, summary.span_count, summary.failed) == (trace_id, "root", 2, True)
        assert summary.duration == root.duration


async def test_receiving_is_not_traced_itself():
    async with running_traces() as traces:
        await send(traces, one_span())
        assert traces.tracing.finished == ()


async def test_a_trace_from_two_services_is_one():
    async with running_traces() as traces:
        await traces.otlp.Export(make_request(span_id=b"\x01" * 8))
        await traces.otlp.Export(make_request(span_id=b"\x02" * 8, parent_span_id=b"\x01" * 8, start_time_unix_nano=2))
        found = await traces.stub.GetTrace(trace_pb2.GetTraceRequest(trace_id="07" * 16))
        assert [span.span_id for span in found.spans] == ["01" * 8, "02" * 8]


async def test_listing_is_newest_first_and_paged():
    async with running_traces() as traces:
        for n in range(1, 31):
            await traces.otlp.Export(make_request(f"trace {n}", bytes([n]) * 16, start_time_unix_nano=n))
        listed = (await traces.stub.ListTraces(trace_pb2.ListTracesRequest())).traces
        assert [summary.root_name for summary in listed] == [f"trace {n}" for n in range(30, 10, -1)]
        listed = (await traces.stub.ListTraces(trace_pb2.ListTracesRequest(page_size=2))).traces
        assert len(listed) == 2


async def test_displaced_and_unknown_traces_are_not_found():
    async with running_traces(kept=1) as traces:
        for n in (1, 2):
            await traces.otlp.Export(make_request(trace_id=bytes([n]) * 16))
        assert (await traces.stub.GetTrace(trace_pb2.GetTraceRequest(trace_id="02" * 16))).spans
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            await traces.stub.GetTrace(trace_pb2.GetTraceRequest(trace_id="01" * 16))
        assert caught.value.code() is grpc.StatusCode.NOT_FOUND
        assert isinstance(error_from_rpc(caught.value), UnknownTrace)


@pytest.mark.parametrize("trace_id", ["", "12", "g" * 32, "0" * 33])
async def test_a_wrong_trace_id_names_its_field(trace_id):
    async with running_traces() as traces:
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            await traces.stub.GetTrace(trace_pb2.GetTraceRequest(trace_id=trace_id))
        error = error_from_rpc(caught.value)
        assert isinstance(error, InvalidRequest)
        assert error.field == "trace_id"


async def test_a_negative_page_size_names_its_field():
    async with running_traces() as traces:
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            await traces.stub.ListTraces(trace_pb2.ListTracesRequest(page_size=-1))
        assert error_from_rpc(caught.value).field == "page_size"


@pytest.mark.parametrize("rubbish", [b"\xff\xff\xff\xff", b"\x0a\x05abc", secrets.token_bytes(1000)])
async def test_rubbish_is_refused_and_nothing_breaks(rubbish):
    async with running_otlp() as collector, running_traces(collector.endpoint) as traces:
        export = traces.channel.unary_unary("/opentelemetry.proto.collector.trace.v1.TraceService/Export")
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            await export(rubbish)
        assert caught.value.code() is grpc.StatusCode.INVALID_ARGUMENT
        trace_id = await send(traces, one_span("next"))
        await collector.receiver.trace(trace_id, ["next"])
        assert len(collector.receiver.spans) == 1


async def test_spans_without_sense_are_counted_to_their_sender():
    async with running_traces() as traces:
        request = make_request()
        request.MergeFrom(make_request(span_id=b"short"))
        answer = await traces.otlp.Export(request)
        assert answer.partial_success.rejected_spans == 1
        assert (await traces.stub.GetTrace(trace_pb2.GetTraceRequest(trace_id="07" * 16))).spans


async def test_everything_received_reaches_the_collector_unchanged():
    async with running_otlp() as collector, running_traces(collector.endpoint) as traces:
        trace_id = await send(traces, one_span("forwarded"))
        (span,) = await collector.receiver.trace(trace_id, ["forwarded"])
        assert span.service == "tiermesh-router"
        assert span.start_ns > 0
        assert collector.receiver.metadata[0][FORWARDED_BY] == traces.identity


async def test_a_hanging_collector_delays_nobody():
    async with running_otlp() as collector, running_traces(collector.endpoint) as traces:
        collector.receiver.answering.clear()
        async with asyncio.timeout(60):
            for n in range(1, 100):
                await traces.otlp.Export(make_request(trace_id=bytes([n]) * 16))
        assert (await traces.stub.GetTrace(trace_pb2.GetTraceRequest(trace_id="63" * 16))).spans
        await collector.receiver.until(lambda: collector.receiver.calls == 1)
        collector.receiver.answering.set()
        await collector.receiver.until(lambda: len({span.trace_id for span in collector.receiver.spans}) == 99)


async def test_a_collector_that_appears_later_gets_what_was_sent_before(unused_tcp_port):
    async with running_traces(f"http://127.0.0.1:{unused_tcp_port}") as traces:
        trace_id = await send(traces, one_span("early"))
        assert (await traces.stub.GetTrace(trace_pb2.GetTraceRequest(trace_id=trace_id))).spans
        receiver = OtlpReceiver()
        async with running_otlp(port=unused_tcp_port, receiver=receiver):
            await receiver.trace(trace_id, ["early"])


async def test_a_collector_that_restarts_is_found_again(unused_tcp_port):
    receiver = OtlpReceiver()
    async with running_traces(f"http://127.0.0.1:{unused_tcp_port}") as traces:
        for name in ("before", "after"):
            async with running_otlp(port=unused_tcp_port, receiver=receiver):
                trace_id = await send(traces, one_span(name))
                await receiver.trace(trace_id, [name])


async def test_a_collector_that_refuses_does_not_stop_what_comes_after():
    async with running_otlp() as collector, running_traces(collector.endpoint) as traces:
        collector.receiver.refusal = grpc.StatusCode.UNIMPLEMENTED
        await traces.otlp.Export(make_request("refused"))

        async def refused():
            return traces.forwarder.lost_batches == 1

        await eventually(refused)
        collector.receiver.refusal = None
        await traces.otlp.Export(make_request("taken"))
        await collector.receiver.until(lambda: collector.receiver.named("taken"))
        assert collector.receiver.named("refused") == []


async def test_it_never_forwards_to_itself(unused_tcp_port):
    address = f"127.0.0.1:{unused_tcp_port}"
    async with running_traces(f"http://localhost:{unused_tcp_port}", own_address=address, address=address) as traces:
        assert traces.forwarder is None
        trace_id = await send(traces, one_span())
        assert len((await traces.stub.GetTrace(trace_pb2.GetTraceRequest(trace_id=trace_id))).spans) == 1


async def test_a_loop_through_another_name_ends_after_one_turn(unused_tcp_port):
    # All of 127.0.0.0/8 is this machine, and 127.0.0.2 is not recognised as such.
    collector = f"http://127.0.0.2:{unused_tcp_port}"
    async with running_traces(collector, address=f"0.0.0.0:{unused_tcp_port}") as traces:
        trace_id = await send(traces, one_span())
        await traces.forwarder.flush(60)
        assert traces.forwarder.offered_count == 1
        assert traces.forwarder.lost_batches == 0
        assert len((await traces.stub.GetTrace(trace_pb2.GetTraceRequest(trace_id=trace_id))).spans) == 1


async def test_leaving_delivers_what_is_left():
    async with running_otlp() as collector:
        async with running_traces(collector.endpoint) as traces:
            for n in range(1, 20):
                await traces.otlp.Export(make_request(f"last {n}", bytes([n]) * 16))
        assert len(collector.receiver.spans) == 19
