"""EngineService over real gRPC, on a scripted backend and on the simulated one."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

import grpc
import pytest
from google.protobuf.duration_pb2 import Duration
from harness.engine import ScriptedBackend, Step
from harness.short_deadlines import until_one_is_in_time
from tiermesh.api.common.v1 import answer_pb2, chat_pb2
from tiermesh.api.engine.v1 import engine_pb2, engine_pb2_grpc
from tiermesh.engine.adapters.simulated import SimulatedBackend
from tiermesh.engine.app import wire
from tiermesh.engine.engine import Engine
from tiermesh.engine.orca import SERVICE, load_report
from tiermesh.engine.ports import Alternative, Backend, Finish, Piece, TokenScore
from tiermesh.engine.servicer import EngineServicer
from tiermesh.shared.clock import SYSTEM_CLOCK, Clock
from tiermesh.shared.config import TierConfig
from tiermesh.shared.errors import DeviceFailed, NotApplicable, TiermeshError
from tiermesh.shared.rpc import error_from_rpc, open_channel, open_server
from tiermesh.shared.testing import FakeClock, RecordedTracing, recorded_tracing

TIER = TierConfig(
    name="l1",
    backend="simulated",
    model="toy",
    context_tokens=200,
    answer_tokens=60,
    slots=1,
    queue=1,
    simulated_ttft_ms=1,
    simulated_tokens_per_second=20_000,
)
END = Piece(0, "!", 1, (9,), finish=Finish.STOP)


@dataclass
class Running:
    """A served engine and a client of it."""

    stub: Any
    engine: Engine
    servicer: EngineServicer
    tracing: RecordedTracing

    async def events(
        self, text: str = "hello", *, timeout: float = 60.0, role: Any = chat_pb2.ROLE_USER, **sampling: Any
    ) -> list[engine_pb2.GenerateResponse]:
        return [event async for event in self.call(text, timeout=timeout, role=role, **sampling)]

    def call(
        self, text: str = "hello", *, timeout: float = 60.0, role: Any = chat_pb2.ROLE_USER, **sampling: Any
    ) -> grpc.aio.UnaryStreamCall[engine_pb2.GenerateRequest, engine_pb2.GenerateResponse]:
        request = engine_pb2.GenerateRequest(
            request_id="r-1",
            messages=[chat_pb2.Message(role=role, content=text)],
            sampling=chat_pb2.Sampling(**sampling),
        )
        return self.stub.Generate(request, timeout=timeout)

    async def failure(self, text: str = "hello", **arguments: Any) -> TiermeshError:
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            await self.events(text, **arguments)
        return error_from_rpc(caught.value)


@asynccontextmanager
async def running(
    backend: Backend | None, tier: TierConfig = TIER, *, clock: Clock = SYSTEM_CLOCK
) -> AsyncIterator[Running]:
    # A machine that is busy with other tests is late by more than the usual reserve.
    engine, servicer = wire(tier, clock=clock, end_reserve_s=30.0)
    if backend is not None:
        engine.begin(backend)
    with recorded_tracing() as tracing:
        async with (
            open_server(
                [servicer.service()], address="127.0.0.1:0", tracing=tracing, default_deadline_s=60.0
            ) as server,
            open_channel(f"127.0.0.1:{server.port}") as channel,
        ):
            yield Running(engine_pb2_grpc.EngineServiceStub(channel), engine, servicer, tracing)


def scripted(*steps: Step) -> ScriptedBackend:
    return ScriptedBackend(*steps)


def simulated() -> SimulatedBackend:
    return SimulatedBackend(TIER, clock=SYSTEM_CLOCK)


def text_of(events: list[engine_pb2.GenerateResponse], choice: int = 0) -> str:
    return "".join(e.delta.text for e in events if e.HasField("delta") and e.delta.choice_index == choice)


@pytest.mark.parametrize("text", ["Tell me about rivers", "介绍一下长江"], ids=["English", "Chinese"])
async def test_an_answer_is_started_streamed_and_done(text: str):
    async with running(simulated()) as served:
        events = await served.events(text)
    kinds = [event.WhichOneof("event") for event in events]
    assert (kinds[0], kinds[-1]) == ("started", "done")
    assert set(kinds[1:-1]) == {"delta"}
    assert (events[0].started.model, events[0].started.simulated) == ("toy", True)
    assert "simulated" in text_of(events) or "模拟" in text_of(events)
    done = events[-1].done
    assert done.usage.completion_token_count == sum(len(e.delta.token_ids) for e in events if e.HasField("delta"))
    assert done.usage.prompt_token_count > 0
    assert done.timing.HasField("prefill")
    assert [finish.choice_index for finish in done.finishes] == [0]


async def test_sampling_fields_do_what_they_say():
    async with running(simulated()) as served:
        whole = await served.events(seed=3, temperature=0.7)
        assert text_of(whole) == text_of(await served.events(seed=3, temperature=0.7))
        short = await served.events(max_tokens=4)
        assert short[-1].done.usage.completion_token_count == 4
        assert short[-1].done.finishes[0].finish_reason == answer_pb2.FINISH_REASON_LENGTH
        stopped = await served.events(seed=3, temperature=0.7, stop=["toy"])
        assert text_of(stopped) == text_of(whole).partition("toy")[0]
        two = await served.events(choice_count=2, max_tokens=5)
        assert sorted(finish.choice_index for finish in two[-1].done.finishes) == [0, 1]
        assert two[-1].done.usage.completion_token_count == 10
        scored = await served.events(logprobs=True, top_logprob_count=2, max_tokens=3)
        logprobs = [entry for e in scored if e.HasField("delta") for entry in e.delta.logprobs]
        assert [len(entry.top) for entry in logprobs] == [2, 2, 2]
        assert all(entry.logprob < 0 and entry.token.encode() == entry.token_bytes for entry in logprobs)


async def test_pieces_without_text_are_sent_only_if_they_carry_tokens():
    partial = TokenScore(Alternative("\ufffd", -0.5, b"\xe4\xbd"))
    steps = (Piece(0, "", 1, (7,), (partial,)), Piece(0, "你", 1, (8,)), Piece(0, "", 0, finish=Finish.STOP))
    async with running(scripted(*steps)) as served:
        events = await served.events()
    deltas = [event.delta for event in events if event.HasField("delta")]
    assert [(delta.text, list(delta.token_ids)) for delta in deltas] == [("", [7]), ("你", [8])]
    assert deltas[0].logprobs[0].token_bytes == b"\xe4\xbd"


async def test_half_a_surrogate_pair_does_not_break_the_stream():
    async with running(scripted(Piece(0, "a\ud83db", 1), END)) as served:
        assert text_of(await served.events()) == "a\ufffdb!"


async def test_a_failure_before_the_first_event_is_a_status_alone():
    backend = scripted(END)
    backend.refusal = NotApplicable("no fixed answer")
    async with running(backend) as served:
        call = served.call()
        assert await call.code() == grpc.StatusCode.FAILED_PRECONDITION
        error = await served.failure()
    assert error.reason == "NOT_APPLICABLE"


async def test_a_failure_after_it_is_an_event_and_the_same_status():
    async with running(scripted(Piece(0, "a", 1), DeviceFailed("the worker died"))) as served:
        events = []
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            async for event in served.call():
                events.append(event)
    assert events[-1].failure.reason == "DEVICE_FAILED"
    assert error_from_rpc(caught.value).reason == "DEVICE_FAILED"
    assert caught.value.code() == grpc.StatusCode.UNAVAILABLE


async def test_a_deadline_while_generating_ends_in_an_event_before_it_and_frees_the_engine():
    backend = scripted(Piece(0, "a", 1), asyncio.Event())
    async with running(backend) as served:

        async def ask(deadline_s: float) -> tuple[list[engine_pb2.GenerateResponse], grpc.aio.AioRpcError]:
            events = []
            with pytest.raises(grpc.aio.AioRpcError) as caught:
                async for event in served.call(timeout=deadline_s):
                    events.append(event)
            return events, caught.value

        # A quarter of the deadline at most is kept back for the event, which a busy machine may use up on its way.
        events, error = await until_one_is_in_time(
            ask, lambda seen: seen[0] and seen[0][-1].HasField("failure"), work_s=1.2
        )
        assert events[-1].failure.reason == "INFERENCE_TIMEOUT"
        assert error.code() == grpc.StatusCode.DEADLINE_EXCEEDED
        assert error_from_rpc(error).reason == "INFERENCE_TIMEOUT"
        async with asyncio.timeout(60):
            await backend.abandoned.wait()


async def test_a_caller_who_cancels_frees_the_engine():
    backend = scripted(Piece(0, "a", 1), asyncio.Event())
    async with running(backend) as served:
        call = served.call()
        async for event in call:
            if event.HasField("delta"):
                break
        call.cancel()
        async with asyncio.timeout(60):
            await backend.abandoned.wait()
            while served.engine.load().running:
                await served.engine.changes.next().wait()
        assert served.engine.load().aborted == 1


async def test_a_full_queue_says_when_to_come_back():
    backend = scripted(asyncio.Event())
    async with running(backend) as served:
        held = [asyncio.create_task(served.events()) for _ in range(2)]
        while not served.engine.load().waiting:
            await served.engine.changes.next().wait()
        error = await served.failure()
        assert error.reason == "QUEUE_FULL"
        assert error.retry_after is not None
        for task in held:
            task.cancel()
        await asyncio.wait(held)


async def test_a_deadline_that_passes_in_the_queue_is_budget_exhausted_without_events():
    backend = scripted(asyncio.Event())
    async with running(backend) as served:
        held = asyncio.create_task(served.events())
        await backend.entered.wait()
        call = served.call(timeout=0.3)
        assert await call.code() == grpc.StatusCode.DEADLINE_EXCEEDED
        held.cancel()
        await asyncio.wait({held})


async def test_a_prompt_that_does_not_fit_is_refused_with_numbers():
    async with running(simulated()) as served:
        error = await served.failure("word " * 300)
    assert error.reason == "CONTEXT_TOO_LONG"
    assert "200" in error.message
    assert error.field == "messages"


@pytest.mark.parametrize(
    ("sampling", "field"),
    [
        ({"temperature": 2.5}, "sampling.temperature"),
        ({"temperature": float("nan")}, "sampling.temperature"),
        ({"top_p": 0.0}, "sampling.top_p"),
        ({"max_tokens": 0}, "sampling.max_tokens"),
        ({"choice_count": 9}, "sampling.choice_count"),
        ({"stop": ["a", "b", "c", "d", "e"]}, "sampling.stop"),
        ({"stop": [""]}, "sampling.stop"),
        ({"logprobs": True, "top_logprob_count": 21}, "sampling.top_logprob_count"),
        ({"top_logprob_count": 1}, "sampling.top_logprob_count"),
        ({"presence_penalty": -3.0}, "sampling.presence_penalty"),
        ({"frequency_penalty": 3.0}, "sampling.frequency_penalty"),
        ({"role": chat_pb2.ROLE_UNSPECIFIED}, "messages[0].role"),
        ({"text": ""}, "messages[0].content"),
    ],
    ids=str,
)
async def test_a_wrong_field_is_named(sampling: dict[str, Any], field: str):
    async with running(simulated()) as served:
        error = await served.failure(**sampling)
        assert (error.reason, error.field) == ("INVALID_REQUEST", field)
        # The next request works.
        assert (await served.events(max_tokens=2))[-1].HasField("done")


async def test_no_messages_are_refused():
    async with running(simulated()) as served:
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            await served.stub.Generate(engine_pb2.GenerateRequest(), timeout=60).read()
    assert error_from_rpc(caught.value).field == "messages"


async def test_before_the_model_is_loaded_calls_are_unavailable_and_the_model_can_be_asked_for():
    async with running(None) as served:
        error = await served.failure()
        assert error.reason == "UNAVAILABLE"
        assert error.retry_after is not None
        model = await served.stub.GetModel(engine_pb2.GetModelRequest(), timeout=60)
    assert (model.tier, model.model, model.backend, model.simulated) == ("l1", "toy", "simulated", True)
    assert (model.context_token_limit, model.answer_token_limit) == (200, 60)


async def test_load_is_reported_at_once_and_at_every_change():
    gate = asyncio.Event()
    backend = scripted(gate, END)
    async with running(backend) as served:
        watch = served.stub.WatchLoad(engine_pb2.WatchLoadRequest(min_interval=Duration(nanos=1_000_000)), timeout=60)
        reports = aiter(watch)
        idle = await anext(reports)
        assert (idle.running_count, idle.waiting_count, idle.slot_count, idle.queue_limit) == (0, 0, 1, 1)
        answering = asyncio.create_task(served.events())
        busy = await anext(reports)
        while not busy.running_count:
            busy = await anext(reports)
        assert busy.kv_cache_utilization == 0.5
        gate.set()
        await answering
        after = await anext(reports)
        while after.running_count:
            after = await anext(reports)
        assert (after.generated_token_count, after.kv_cache_utilization) == (1, 0.0)
        assert (after.prefix_queried_token_count, after.prefix_hit_token_count) == (200, 90)
        watch.cancel()


async def test_an_answer_tells_the_load_of_its_engine_at_its_start_and_its_end():
    async with running(simulated()) as served:
        watch = served.stub.WatchLoad(engine_pb2.WatchLoadRequest(), timeout=60)
        instance = (await anext(aiter(watch))).instance
        watch.cancel()
        events = await served.events()
        told = {event.WhichOneof("event"): event.load for event in events if event.HasField("load")}
        assert set(told) == {"started", "done"}
        assert all(load.instance == instance and load.slot_count for load in told.values())
        assert told["started"].running_count == 1
        assert told["done"].generated_token_count > 0
    async with running(simulated()) as another:
        assert (await another.events())[0].load.instance != instance


async def test_watches_end_when_the_server_is_about_to_drain():
    async with running(simulated()) as served:
        watch = aiter(served.stub.WatchLoad(engine_pb2.WatchLoadRequest(), timeout=60))
        await anext(watch)
        served.servicer.end_watches()
        async with asyncio.timeout(60):
            assert not [report async for report in watch]


async def test_the_span_says_where_the_time_went():
    async with running(scripted(Piece(0, "a", 3, cached_prompt_tokens=2), END)) as served:
        await served.events()
        span = served.tracing.named("EngineService/Generate")
    attributes = span.attributes or {}
    assert attributes["tiermesh.tier"] == "l1"
    assert attributes["tiermesh.model"] == "toy"
    assert attributes["tiermesh.tokens.prompt"] == 10
    assert attributes["tiermesh.tokens.completion"] == 4
    assert attributes["tiermesh.finish_reason"] == "stop"
    assert attributes["tiermesh.rule"] == "scripted-rule"
    for name in (
        "tiermesh.engine.queue_ms",
        "tiermesh.engine.prefill_ms",
        "tiermesh.engine.decode_ms",
        "tiermesh.ttft_ms",
    ):
        assert isinstance(attributes[name], float)


async def test_the_parts_of_an_answer_sum_to_the_engines_wall_time():
    gates = [asyncio.Event() for _ in range(3)]
    backend = scripted(
        gates[0], Piece(0, "a", 1, detokenize_s=0.002), gates[1], Piece(0, "b", 1, detokenize_s=0.003), gates[2], END
    )
    async with running(backend) as served:
        holder = asyncio.create_task(served.events())
        await backend.entered.wait()
        waiting = asyncio.create_task(served.events())
        while not served.engine.load().waiting:
            await served.engine.changes.next().wait()
        for gate in gates:
            await asyncio.sleep(0.03)
            gate.set()
        await holder
        done = (await waiting)[-1].done
        # The one that waited for the other's slot.
        span = max(served.tracing.finished, key=lambda s: (s.attributes or {})["tiermesh.engine.queue_ms"])
    timing = done.timing
    parts = [timing.queue, timing.tokenize, timing.prefill, timing.decode, timing.detokenize]
    total_s = sum(part.ToNanoseconds() for part in parts) / 1e9
    # The span begins earlier and ends later, by what a busy machine makes of it.
    assert 0.08 < total_s < (span.end_time - span.start_time) / 1e9 + 0.005
    assert timing.queue.ToMilliseconds() >= 60
    assert timing.detokenize.ToMicroseconds() == 5000
    assert timing.HasField("tokenize")


async def test_the_start_tells_how_long_the_prompt_is():
    async with running(scripted(END)) as served:
        assert (await served.events())[0].started.prompt_token_count == 10


async def test_work_that_cannot_end_in_time_is_refused_before_it_queues():
    gate = asyncio.Event()
    tier = TIER.model_copy(update={"hopeless_work": "enforced", "queue": 8})
    backend, clock = scripted(END), FakeClock()
    async with running(backend, tier, clock=clock) as served:
        backend.steps = (Piece(0, "a", 1), lambda: clock.advance(100.0), END)
        for _ in range(10):
            await served.events()
        backend.steps = (gate, END)
        holder = asyncio.create_task(served.events())
        while not served.engine.load().running:
            await served.engine.changes.next().wait()
        # Answers take 100 s, as all before it did, and the holder's own end is as far away.
        error = await served.failure(timeout=60)
        assert error.reason == "BUDGET_EXHAUSTED"
        assert "would need about" in error.message
        load = served.engine.load()
        assert load.hopeless == 1
        assert load.waiting == 0
        gate.set()
        await holder
        report = await anext(aiter(served.stub.WatchLoad(engine_pb2.WatchLoadRequest(), timeout=60)))
        assert (report.hopeless_count, report.hopeless_finished_count) == (load.hopeless, 0)


async def test_load_is_reported_by_the_clock_until_the_server_drains():
    engine, servicer = wire(TIER, clock=SYSTEM_CLOCK)
    with recorded_tracing() as tracing:
        async with (
            open_server(
                [servicer.service(), servicer.load_reports()],
                address="127.0.0.1:0",
                tracing=tracing,
                default_deadline_s=60.0,
            ) as server,
            open_channel(f"127.0.0.1:{server.port}") as channel,
        ):
            method = channel.unary_stream(f"/{SERVICE}/StreamCoreMetrics")
            reports = aiter(method(b"\x0a\x05\x10\x80\xc2\xd7\x2f", timeout=60))
            assert [await anext(reports) for _ in range(2)] == [load_report(engine.load())] * 2
            servicer.end_watches()
            async with asyncio.timeout(60):
                assert not [report async for report in reports]
