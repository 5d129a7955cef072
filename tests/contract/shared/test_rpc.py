"""The gRPC kit over a real connection: deadlines, errors, traces, cancellation, drain, health."""

import asyncio
import contextlib
from contextlib import aclosing, asynccontextmanager

import pytest
from grpc_health.v1 import health_pb2, health_pb2_grpc
from harness.short_deadlines import until_one_arrives
from tiermesh.api.engine.v1 import engine_pb2, engine_pb2_grpc
from tiermesh.shared.budget import Budget, current_budget
from tiermesh.shared.errors import BudgetExhausted, InternalError, QueueFull, Unavailable
from tiermesh.shared.rpc import Service, call_stream, call_unary, open_channel, open_server
from tiermesh.shared.testing import recorded_tracing

SERVICE = engine_pb2.DESCRIPTOR.services_by_name["EngineService"].full_name


class Scripted(engine_pb2_grpc.EngineServiceServicer):
    """Does what the request id says."""

    def __init__(self):
        self.cancelled = asyncio.Event()
        self.started = asyncio.Event()
        self.budgets = []
        self.generated = []

    async def GetModel(self, request, context):
        self.budgets.append(current_budget().remaining())
        return engine_pb2.GetModelResponse(model="m")

    async def Generate(self, request, context):
        self.generated.append(request)
        self.started.set()
        try:
            async for event in self._events(request):
                yield event
        except (asyncio.CancelledError, GeneratorExit):
            # The one strikes where it waits, the other where it has just sent something.
            self.cancelled.set()
            raise

    async def _events(self, request):
        if request.request_id == "full":
            raise QueueFull("64 prompts wait already", retry_after=2.5)
        if request.request_id == "bug":
            raise RuntimeError("secret prompt text")
        yield engine_pb2.GenerateResponse(started=engine_pb2.Started(model="m"))
        if request.request_id == "hang":
            await asyncio.Event().wait()
        if request.request_id == "late-full":
            raise QueueFull("changed my mind")
        yield engine_pb2.GenerateResponse(done=engine_pb2.Done())


@asynccontextmanager
async def serving(drain_s=0.0, longest=30):
    servicer = Scripted()
    service = Service(SERVICE, lambda s: engine_pb2_grpc.add_EngineServiceServicer_to_server(servicer, s))
    with recorded_tracing() as tracing:
        async with open_server(
            [service], address="127.0.0.1:0", tracing=tracing, default_deadline_s=longest, drain_s=drain_s
        ) as server:
            await server.set_serving(True)
            async with open_channel(f"127.0.0.1:{server.port}") as channel:
                yield servicer, engine_pb2_grpc.EngineServiceStub(channel), tracing.tracer, tracing, server, channel


def generate(stub, what, tracer, budget=None):
    request = engine_pb2.GenerateRequest(request_id=what)
    return call_stream(stub.Generate, request, name="Generate", budget=budget or Budget.of(60), tracer=tracer)


async def test_the_deadline_arrives_and_is_shorter():
    async with serving() as (servicer, stub, tracer, *_):
        await call_unary(
            stub.GetModel, engine_pb2.GetModelRequest(), name="GetModel", budget=Budget.of(20), tracer=tracer
        )
        await stub.GetModel(engine_pb2.GetModelRequest())
    assert 5.0 < servicer.budgets[0] <= 20.0
    assert 20.0 < servicer.budgets[1] <= 30.0


@pytest.mark.parametrize("seconds", [0.4567, 3.4567, 9.999, 59.93, 123.4, 599.5, 3599.0])
async def test_the_next_hop_never_has_more_time_than_its_caller(seconds):
    async with serving(longest=3600) as (servicer, stub, tracer, *_):
        request = engine_pb2.GetModelRequest()
        # The shortest may pass on the way there on a busy machine.
        while not servicer.budgets:
            with contextlib.suppress(BudgetExhausted):
                budget = Budget.of(seconds)
                await call_unary(stub.GetModel, request, name="GetModel", budget=budget, tracer=tracer)
    assert max(0, seconds * 0.97 - 10) <= servicer.budgets[0] <= seconds + 0.001


async def test_an_empty_budget_is_refused_without_a_call():
    async with serving() as (servicer, stub, tracer, *_):
        with pytest.raises(BudgetExhausted):
            await call_unary(
                stub.GetModel, engine_pb2.GetModelRequest(), name="GetModel", budget=Budget.of(0), tracer=tracer
            )
    assert servicer.budgets == []


async def test_a_deadline_that_passes_is_a_budget_error():
    async with serving() as (servicer, stub, tracer, *_):

        async def ask(deadline_s):
            with pytest.raises(BudgetExhausted):
                async with aclosing(generate(stub, "hang", tracer, Budget.of(deadline_s))) as events:
                    async for _ in events:
                        pass

        await until_one_arrives(ask, servicer.generated, deadline_s=0.2)
        async with asyncio.timeout(60):
            await servicer.cancelled.wait()


async def test_errors_keep_reason_and_retry_delay_before_and_after_the_first_event():
    async with serving() as (_, stub, tracer, *_):
        with pytest.raises(QueueFull, match="64 prompts") as caught:
            [e async for e in generate(stub, "full", tracer)]
        assert caught.value.retry_after == 2.5
        seen = []
        with pytest.raises(QueueFull, match="changed"):
            async for event in generate(stub, "late-full", tracer):
                seen.append(event)
        assert len(seen) == 1


async def test_unexpected_errors_do_not_leak_their_text(capsys):
    async with serving() as (_, stub, tracer, *_):
        with pytest.raises(InternalError) as caught:
            [e async for e in generate(stub, "bug", tracer)]
    assert "secret" not in str(caught.value)


async def test_leaving_the_loop_cancels_the_handler():
    async with serving() as (servicer, stub, tracer, *_):
        async with aclosing(generate(stub, "hang", tracer)) as events:
            async for _ in events:
                break
        async with asyncio.timeout(60):
            await servicer.cancelled.wait()


async def test_cancelling_the_caller_cancels_the_handler():
    async with serving() as (servicer, stub, tracer, *_):

        async def read():
            async with aclosing(generate(stub, "hang", tracer)) as events:
                async for _ in events:
                    pass

        task = asyncio.ensure_future(read())
        await servicer.started.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        async with asyncio.timeout(60):
            await servicer.cancelled.wait()


async def test_client_and_server_spans_form_one_trace():
    async with serving() as (_, stub, tracer, tracing, *_):
        with tracer.start_as_current_span("root"):
            [e async for e in generate(stub, "ok", tracer)]
    spans = {span.name: span for span in tracing.finished}
    root, client, server = spans["root"], spans["Generate"], spans["EngineService/Generate"]
    assert {s.context.trace_id for s in spans.values()} == {root.context.trace_id}
    assert client.parent.span_id == root.context.span_id
    assert server.parent.span_id == client.context.span_id
    assert server.attributes["tiermesh.budget.in_ms"] > 4000


async def test_drain_lets_a_call_finish_and_refuses_new_ones():
    async with serving() as (servicer, stub, tracer, _, server, channel):
        task = asyncio.ensure_future(anext(generate(stub, "hang", tracer)))
        await task
        checks = health_pb2_grpc.HealthStub(channel)
        assert (await checks.Check(health_pb2.HealthCheckRequest())).status == health_pb2.HealthCheckResponse.SERVING
        await server.drain(0.1)
        with pytest.raises(Unavailable):
            await call_unary(
                stub.GetModel, engine_pb2.GetModelRequest(), name="GetModel", budget=Budget.of(30), tracer=tracer
            )


async def test_a_taken_port_is_refused():
    async with serving() as (_, _, _, tracing, server, _):
        with pytest.raises(OSError, match=f"127.0.0.1:{server.port}"):
            async with open_server([], address=f"127.0.0.1:{server.port}", tracing=tracing, default_deadline_s=1):
                pass


async def test_reflection_lists_the_service():
    from grpc_reflection.v1alpha import reflection_pb2, reflection_pb2_grpc

    async with serving() as (*_, channel):
        stub = reflection_pb2_grpc.ServerReflectionStub(channel)
        call = stub.ServerReflectionInfo(iter([reflection_pb2.ServerReflectionRequest(list_services="")]))
        names = [s.name async for r in call for s in r.list_services_response.service]
    assert SERVICE in names
    assert "grpc.health.v1.Health" in names
