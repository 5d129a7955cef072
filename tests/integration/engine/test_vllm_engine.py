"""Real vLLM with real weights: two engine processes, one on each of two cores."""

import asyncio
import math
import os
import signal
from collections.abc import Iterator, Sequence
from contextlib import asynccontextmanager
from typing import Any

import grpc
import psutil
import pytest
from harness.eventually import eventually
from harness.vllm import EngineProcess, running_engines
from tiermesh.api.common.v1 import answer_pb2, chat_pb2
from tiermesh.api.engine.v1 import engine_pb2, engine_pb2_grpc
from tiermesh.shared.canonical import canonical_messages
from tiermesh.shared.config import DynamicField
from tiermesh.shared.dynamic import engine_messages
from tiermesh.shared.rpc import error_from_rpc, open_channel

# Loading two models on two busy cores takes a minute or two, once for this file.
pytestmark = [pytest.mark.vllm, pytest.mark.timeout(400)]

Events = list[engine_pb2.GenerateResponse]


@pytest.fixture(scope="module")
def engines(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, EngineProcess]]:
    with running_engines(tmp_path_factory.mktemp("engines")) as running:
        yield running


@asynccontextmanager
async def client(engine: EngineProcess):
    async with open_channel(engine.target) as channel:
        yield engine_pb2_grpc.EngineServiceStub(channel)


def prompt(text: str, **sampling: Any) -> engine_pb2.GenerateRequest:
    return engine_pb2.GenerateRequest(
        request_id="test",
        messages=[chat_pb2.Message(role=chat_pb2.ROLE_USER, content=text)],
        sampling=chat_pb2.Sampling(**sampling),
    )


async def answer(engine: EngineProcess, text: str, *, timeout: float = 60.0, **sampling: Any) -> Events:
    async with client(engine) as stub:
        return [event async for event in stub.Generate(prompt(text, **sampling), timeout=timeout)]


def text_of(events: Events, choice: int = 0) -> str:
    return "".join(e.delta.text for e in events if e.HasField("delta") and e.delta.choice_index == choice)


def scheduler_seconds(engine: EngineProcess) -> float:
    (scheduler,) = (worker for worker in engine.workers() if "EngineCore" in "".join(worker.cmdline()))
    return sum(scheduler.cpu_times()[:2])


async def test_a_right_answer_in_english(engines: dict[str, EngineProcess]):
    events = await answer(engines["l1"], "What is the capital of France?", temperature=0.0)
    assert "Paris" in text_of(events)
    done = events[-1].done
    assert events[0].started.model == "smollm2-135m-instruct"
    assert not events[0].started.simulated
    assert done.finishes[0].finish_reason == answer_pb2.FINISH_REASON_STOP
    # More than the words of the question: the chat template is in the count.
    assert done.usage.prompt_token_count > 20
    assert done.usage.completion_token_count == sum(len(e.delta.token_ids) for e in events)


async def test_chinese_characters_arrive_whole(engines: dict[str, EngineProcess]):
    events = await answer(engines["l1"], "Say 你好 in Chinese", temperature=0.0, max_tokens=6)
    text = text_of(events)
    assert any("\u4e00" <= character <= "\u9fff" for character in text)
    # A character of several tokens comes with its last one; the tokens before it come without text.
    assert any(e.delta.token_ids and not e.delta.text for e in events if e.HasField("delta"))
    assert "\ufffd" not in text


async def test_the_token_limit_and_a_stop_text_end_the_answer(engines: dict[str, EngineProcess]):
    short = await answer(engines["l1"], "Count from one to twenty.", temperature=0.0, max_tokens=12)
    assert short[-1].done.finishes[0].finish_reason == answer_pb2.FINISH_REASON_LENGTH
    assert short[-1].done.usage.completion_token_count == 12
    whole = text_of(short)
    stop = whole.split()[3]
    stopped = await answer(engines["l1"], "Count from one to twenty.", temperature=0.0, max_tokens=12, stop=[stop])
    assert text_of(stopped) == whole.partition(stop)[0]
    assert stopped[-1].done.finishes[0].finish_reason == answer_pb2.FINISH_REASON_STOP


async def test_a_seed_repeats_several_choices(engines: dict[str, EngineProcess]):
    sampling = {"temperature": 1.0, "seed": 11, "choice_count": 2, "max_tokens": 16}
    first, second = [await answer(engines["l1"], "Tell me a story.", **sampling) for _ in range(2)]
    texts = [text_of(first, choice) for choice in (0, 1)]
    assert texts == [text_of(second, choice) for choice in (0, 1)]
    assert texts[0] != texts[1]
    assert [finish.choice_index for finish in first[-1].done.finishes] == [0, 1]
    other = await answer(engines["l1"], "Tell me a story.", **sampling | {"seed": 12})
    assert text_of(other) != texts[0]


async def test_logprobs_come_one_a_token_with_bytes_that_make_the_text(engines: dict[str, EngineProcess]):
    events = await answer(
        engines["l1"], "Repeat: 你好 friend", temperature=0.0, logprobs=True, top_logprob_count=3, max_tokens=8
    )
    deltas = [event.delta for event in events if event.HasField("delta")]
    entries = [entry for delta in deltas for entry in delta.logprobs]
    assert len(entries) == sum(len(delta.token_ids) for delta in deltas)
    assert b"".join(entry.token_bytes for entry in entries).decode(errors="ignore").startswith(text_of(events))
    for entry in entries:
        assert [top.logprob for top in entry.top] == sorted((top.logprob for top in entry.top), reverse=True)
        assert len(entry.top) == 3
        # Greedy: the most likely token is the one that was chosen.
        assert entry.top[0].token_bytes == entry.token_bytes
        assert math.exp(entry.logprob) <= 1


async def test_the_longer_tier_takes_what_the_shorter_refuses(engines: dict[str, EngineProcess]):
    long = "The river flows to the sea. " * 200
    with pytest.raises(grpc.aio.AioRpcError) as caught:
        await answer(engines["l1"], long)
    error = error_from_rpc(caught.value)
    assert error.reason == "CONTEXT_TOO_LONG"
    assert "this tier holds 1024" in error.message
    events = await answer(engines["l2"], long, max_tokens=2)
    assert events[0].started.model == "smollm2-135m-instruct-long"
    assert events[-1].done.usage.prompt_token_count > 1024


async def test_ten_megabytes_are_refused_at_once_and_the_next_request_works(engines: dict[str, EngineProcess]):
    with pytest.raises(grpc.aio.AioRpcError) as caught:
        await answer(engines["l1"], "long " * 2_000_000, timeout=60.0)
    assert error_from_rpc(caught.value).reason == "CONTEXT_TOO_LONG"
    assert text_of(await answer(engines["l1"], "Say hi.", max_tokens=4))


async def test_a_cancelled_call_stops_the_model(engines: dict[str, EngineProcess]):
    engine = engines["l1"]
    async with client(engine) as stub:
        watch = aiter(stub.WatchLoad(engine_pb2.WatchLoadRequest(), timeout=60))
        before = (await anext(watch)).aborted_count
        call = stub.Generate(prompt("Write a long story about a fox.", max_tokens=250, choice_count=2), timeout=60)
        deltas = 0
        async for event in call:
            deltas += event.HasField("delta")
            if deltas == 10:
                break
        call.cancel()
        load = await anext(watch)
        while load.running_count or load.aborted_count == before:
            load = await anext(watch)
        assert load.aborted_count == before + 1
    # vLLM's scheduler has gone idle; 500 tokens would have kept it busy for ten seconds. (Its worker spins
    # for a second after the last step, so that one says nothing.)
    used = scheduler_seconds(engine)
    await asyncio.sleep(1.0)
    assert scheduler_seconds(engine) - used < 0.15


async def test_a_deadline_ends_the_answer_with_an_event_before_it(engines: dict[str, EngineProcess]):
    events: Events = []
    # A busy machine may need longer than that for the first token, or be late with the event at the end.
    for seconds in (2.0, 4.0, 8.0, 16.0):
        events.clear()
        async with client(engines["l2"]) as stub:
            with pytest.raises(grpc.aio.AioRpcError) as caught:
                async for event in stub.Generate(
                    prompt("Write a long story.", max_tokens=1000, choice_count=8), timeout=seconds
                ):
                    events.append(event)
        if text_of(events) and events[-1].HasField("failure"):
            break
    assert caught.value.code() == grpc.StatusCode.DEADLINE_EXCEEDED
    assert events[-1].failure.reason == "INFERENCE_TIMEOUT"
    assert text_of(events)


async def test_both_engines_answer_at_once(engines: dict[str, EngineProcess]):
    calls = [answer(engines[tier], f"Name {n} colours.", max_tokens=24) for n in range(2, 6) for tier in engines]
    answers = await asyncio.gather(*calls)
    assert all(events[-1].HasField("done") and text_of(events) for events in answers)


SNIPPET = (
    "The kettle was first sold in 1998, weighs two kilograms, is thirty centimetres high and comes in red or white. Its "
    "warranty lasts five years and covers every part but the cable, which is three metres long. In normal use it takes nine "
    "hundred watts and is as loud as forty decibels. The case is made of steel, and spare parts are kept for twelve years. It "
    "bears up to ninety degrees and can be opened with four screws. A repair takes ten days and begins at thirty euros. It is "
    "delivered within three days, and may be sent back within forty days, in its box and with its manual of sixty pages, which "
    "says in seven languages how to fill it, when to empty it, and why it should never be left alone with a cat."
)
FIELDS = (DynamicField(name="session", labels=("session id", "会话编号"), answer_depends=False),)


def asked(snippet: str, session: str, question: str) -> list[chat_pb2.Message]:
    return [
        chat_pb2.Message(role=chat_pb2.ROLE_SYSTEM, content=f"{session}\nAnswer from this text.\n{snippet}"),
        chat_pb2.Message(role=chat_pb2.ROLE_USER, content=question),
    ]


async def prefix_counters(stub: Any) -> tuple[int, int]:
    watch = stub.WatchLoad(engine_pb2.WatchLoadRequest(), timeout=60)
    load = await watch.read()
    watch.cancel()
    return load.prefix_queried_token_count, load.prefix_hit_token_count


async def prefix_hit_rate(engine: EngineProcess, prompts: list[Sequence[chat_pb2.Message]]) -> float:
    async with client(engine) as stub:
        before, asked_for = await prefix_counters(stub), 0
        for messages in prompts:
            request = engine_pb2.GenerateRequest(
                request_id="test", messages=messages, sampling=chat_pb2.Sampling(max_tokens=1, temperature=0.0)
            )
            events = [event async for event in stub.Generate(request, timeout=300)]
            asked_for += events[-1].done.usage.prompt_token_count

        async def counted() -> tuple[int, int] | None:
            # vLLM gives its counters with, not before, the last token.
            after = await prefix_counters(stub)
            return after if after[0] - before[0] >= asked_for else None

        after = await eventually(counted)
    assert after[0] - before[0] == asked_for
    return (after[1] - before[1]) / asked_for


async def test_the_prefix_cache_finds_what_dynamic_fields_would_hide(engines: dict[str, EngineProcess]):
    # Numbers that differ from their first digit on, as session numbers do.
    sessions = [f"{n * 0x9E3779B97F4A7C15 % 2**64:016x}" for n in range(1, 19)]
    heads = [f"Session ID: {session}" if n % 2 else f"会话编号：{session}" for n, session in enumerate(sessions)]
    prompts = [asked(f"Item {n % 2}. {SNIPPET}", head, f"What is its {n}th property?") for n, head in enumerate(heads)]
    raw = await prefix_hit_rate(engines["l2"], prompts)
    normalised = await prefix_hit_rate(
        engines["l2"], [canonical_messages(engine_messages(messages, FIELDS)) for messages in prompts]
    )
    assert raw <= 0.03
    assert normalised >= 0.47


async def test_requests_of_the_same_meaning_are_rendered_to_the_same_tokens(engines: dict[str, EngineProcess]):
    def prompt_of(content: str, arguments: str) -> Sequence[chat_pb2.Message]:
        call = chat_pb2.ToolCall(id="1", name="look_up", arguments_json=arguments)
        messages = [
            chat_pb2.Message(role=chat_pb2.ROLE_USER, content=content),
            chat_pb2.Message(role=chat_pb2.ROLE_ASSISTANT, content="", tool_calls=[call]),
            chat_pb2.Message(role=chat_pb2.ROLE_USER, content="Shorter."),
        ]
        return canonical_messages(engine_messages(messages, FIELDS))

    one = prompt_of(f"Caf\u00e9 一\n{SNIPPET}", '{"a": 1, "b": [2.50]}')
    two = prompt_of(f"Cafe\u0301 一\r\n{SNIPPET} \n", '{ "b":[2.50],\n"a":1 }')
    assert [m.SerializeToString() for m in one] == [m.SerializeToString() for m in two]
    await prefix_hit_rate(engines["l2"], [one])
    # Whole blocks of it, which on a CPU have 128 tokens; what is over vLLM computes in any case.
    again = await prefix_hit_rate(engines["l2"], [one])
    assert again >= 0.4
    assert await prefix_hit_rate(engines["l2"], [two]) == again


# Nothing is left of the engines after these two: they come last.
async def test_a_dead_worker_ends_the_process_with_a_status_that_restarts_it(engines: dict[str, EngineProcess]):
    engine = engines["l1"]
    async with client(engine) as stub:
        call = stub.Generate(prompt("Write a long story about a dog.", max_tokens=250), timeout=60)
        events: Events = []
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            async for event in call:
                events.append(event)
                if len(events) == 5:
                    for worker in engine.workers():
                        worker.kill()
    assert caught.value.code() == grpc.StatusCode.UNAVAILABLE
    assert events[-1].failure.reason == "DEVICE_FAILED"
    assert await asyncio.to_thread(engine.process.wait, 100) == 1
    assert not engine.serving()


async def test_an_engine_that_is_killed_leaves_no_worker_behind(engines: dict[str, EngineProcess]):
    engine = engines["l2"]
    workers = engine.workers()
    assert workers
    os.kill(engine.process.pid, signal.SIGKILL)
    engine.process.wait()

    async def all_gone() -> bool:
        return not any(is_alive(worker) for worker in workers)

    await eventually(all_gone)


def is_alive(process: psutil.Process) -> bool:
    try:
        return process.is_running() and process.status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False
