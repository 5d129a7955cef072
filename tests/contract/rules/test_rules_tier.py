"""A rules tier over a real connection."""

from pathlib import Path

import pytest
from tiermesh.api.common.v1 import answer_pb2, chat_pb2
from tiermesh.api.engine.v1 import engine_pb2, engine_pb2_grpc
from tiermesh.engine.adapters.rules import RulesBackend
from tiermesh.engine.app import wire
from tiermesh.shared.budget import Budget
from tiermesh.shared.clock import SYSTEM_CLOCK
from tiermesh.shared.config import load_config
from tiermesh.shared.errors import NotApplicable
from tiermesh.shared.rpc import call_stream, open_channel, open_server
from tiermesh.shared.rules import CurrentRules, load_rules
from tiermesh.shared.testing import recorded_tracing

PROFILES = Path(__file__).parents[3] / "mesh" / "profiles"


@pytest.fixture(scope="module")
def rules():
    return CurrentRules(load_rules(PROFILES / "rules.yaml"))


@pytest.fixture
async def generate(rules):
    engine, servicer = wire(load_config(PROFILES / "local.yaml").tier("l0"), clock=SYSTEM_CLOCK)
    engine.begin(RulesBackend(rules))
    with recorded_tracing() as tracing:
        async with (
            open_server([servicer.service()], address="127.0.0.1:0", tracing=tracing, default_deadline_s=60) as server,
            open_channel(f"127.0.0.1:{server.port}") as channel,
        ):
            stub = engine_pb2_grpc.EngineServiceStub(channel)

            async def generate(text, **sampling):
                message = chat_pb2.Message(role=chat_pb2.ROLE_USER, content=text)
                request = engine_pb2.GenerateRequest(
                    request_id="r", messages=[message], sampling=chat_pb2.Sampling(**sampling)
                )
                call = call_stream(stub.Generate, request, name="Generate", budget=Budget.of(60), tracer=tracing.tracer)
                return [event async for event in call]

            yield generate


async def test_a_fixed_answer_is_a_stream_like_any_other(generate):
    events = await generate("你好，请问怎么重置密码？")
    assert [e.WhichOneof("event") for e in (events[0], events[-1])] == ["started", "done"]
    deltas = [event.delta for event in events[1:-1]]
    assert len(deltas) > 3
    assert "".join(delta.text for delta in deltas).startswith("打开 https://example.com/reset")
    done = events[-1].done
    assert done.rule == "faq:reset-password"
    assert [finish.finish_reason for finish in done.finishes] == [answer_pb2.FINISH_REASON_STOP]
    assert done.usage.prompt_token_count > 5
    assert done.usage.completion_token_count > 20
    assert not events[0].started.simulated


async def test_limits_and_choices_reach_the_answer(generate):
    events = await generate("hello", max_tokens=3, choice_count=2)
    done = events[-1].done
    assert [finish.finish_reason for finish in done.finishes] == [answer_pb2.FINISH_REASON_LENGTH] * 2
    assert done.usage.completion_token_count == 6


async def test_anything_else_is_refused_before_any_event(generate):
    with pytest.raises(NotApplicable):
        await generate("Explain gravity to a child.")
    assert (await generate("hello"))[-1].WhichOneof("event") == "done"
