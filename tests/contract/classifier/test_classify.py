"""ClassifierService over a real connection."""

import contextlib
from pathlib import Path

import grpc
import pytest
from grpc_health.v1 import health_pb2, health_pb2_grpc
from tiermesh.api.classifier.v1 import classifier_pb2, classifier_pb2_grpc
from tiermesh.api.common.v1 import chat_pb2
from tiermesh.classifier.app import wire
from tiermesh.shared.budget import Budget
from tiermesh.shared.errors import InvalidRequest
from tiermesh.shared.rpc import call_unary, open_channel, open_server
from tiermesh.shared.rules import CurrentRules, load_rules, parse_rules
from tiermesh.shared.testing import recorded_tracing

PROFILE = Path(__file__).parents[3] / "mesh" / "profiles" / "rules.yaml"
TYPES = classifier_pb2.TaskType


@pytest.fixture(scope="module")
def book():
    return load_rules(PROFILE)


@pytest.fixture
def rules(book):
    return CurrentRules(book)


@pytest.fixture
def tracing():
    with recorded_tracing() as tracing:
        yield tracing


@contextlib.asynccontextmanager
async def serving(rules, tracing):
    async with (
        open_server([wire(rules)], address="127.0.0.1:0", tracing=tracing, default_deadline_s=60) as server,
        open_channel(f"127.0.0.1:{server.port}") as channel,
    ):
        await server.set_serving(True)
        yield channel


@pytest.fixture
async def channel(rules, tracing):
    async with serving(rules, tracing) as channel:
        yield channel


@pytest.fixture
def classify(channel, tracing):
    stub = classifier_pb2_grpc.ClassifierServiceStub(channel)

    async def classify(*messages, **more):
        messages = [user(m) if isinstance(m, str) else m for m in messages]
        request = classifier_pb2.ClassifyRequest(messages=messages, **more)
        return await call_unary(stub.Classify, request, name="Classify", budget=Budget.of(60), tracer=tracing.tracer)

    return classify


def user(text):
    return chat_pb2.Message(role=chat_pb2.ROLE_USER, content=text)


@pytest.mark.parametrize(
    ("text", "task_type", "language"),
    [
        ("hello", TYPES.TASK_TYPE_GREETING, "en"),
        ("怎么重置密码？", TYPES.TASK_TYPE_FAQ, "zh"),
        ("Is this review positive or negative? 'I love it'", TYPES.TASK_TYPE_LABEL, "en"),
        ("总结一下：今天开会了", TYPES.TASK_TYPE_SUMMARISE, "zh"),
        ("Rephrase: I am late", TYPES.TASK_TYPE_REWRITE, "en"),
        ("Extract all dates: 3 May", TYPES.TASK_TYPE_EXTRACT, "en"),
        ("翻译成英文：你好", TYPES.TASK_TYPE_TRANSLATE, "zh"),
        ("Who wrote Hamlet?", TYPES.TASK_TYPE_QA, "en"),
        ("陪我聊聊天吧", TYPES.TASK_TYPE_CHAT, "zh"),
        ("Write a Python function that sorts a list", TYPES.TASK_TYPE_CODE, "en"),
        ("解方程 x + 1 = 3", TYPES.TASK_TYPE_MATH, "zh"),
        ("word " * 3000, TYPES.TASK_TYPE_LONG_CONTEXT, "en"),
        ("帮我制定一个健身计划", TYPES.TASK_TYPE_PLANNING, "zh"),
    ],
)
async def test_every_kind_of_work(classify, text, task_type, language):
    response = await classify(text)
    assert response.task_type == task_type
    assert response.languages[0] == language
    assert 0 <= response.complexity <= 1
    assert response.source == "rules"
    assert response.rules


async def test_tool_use_is_told_by_the_conversation(classify):
    call = chat_pb2.ToolCall(id="1", name="weather", arguments_json='{"city": "Oslo"}')
    response = await classify(
        "And now?",
        chat_pb2.Message(role=chat_pb2.ROLE_ASSISTANT, tool_calls=[call]),
        chat_pb2.Message(role=chat_pb2.ROLE_TOOL, content="12", tool_call_id="1"),
    )
    assert response.task_type == TYPES.TASK_TYPE_TOOL_USE
    assert response.features["has_tool_history"] == 1


async def test_the_response_says_what_it_rests_on(classify, book):
    response = await classify("What is 17 * 23?", max_tokens=77)
    assert response.version == book.version
    assert response.rules[0] == "math-expression"
    assert response.estimated_prompt_token_count == response.features["estimated_prompt_tokens"] > 5
    assert response.features["question_mark_count"] == 1
    assert response.features["max_answer_tokens"] == 77
    assert response.features["pattern_overrun_count"] == 0


async def test_the_span_has_the_judgement_and_its_features_but_not_the_prompt(classify, tracing):
    await classify("Write a Python function named florbulate")
    (span,) = [span for span in tracing.finished if span.name == "ClassifierService/Classify"]
    assert span.attributes["tiermesh.classifier.task_type"] == "code"
    assert span.attributes["tiermesh.classifier.complexity"] == 0.7
    assert span.attributes["tiermesh.classifier.source"] == "rules"
    assert "code-asked-en" in span.attributes["tiermesh.classifier.rules"]
    assert span.attributes["tiermesh.classifier.feature.turn_count"] == 1
    assert "florbulate" not in str(dict(span.attributes))


async def test_rules_that_change_count_at_once(classify, rules, book):
    assert (await classify("florbulate")).source == "default"
    rules.book = parse_rules(
        "rules: [{name: f, any: [florbulate], task_type: code, complexity: 0.9}]", Path("rules.yaml")
    )
    changed = await classify("florbulate")
    assert (changed.task_type, list(changed.rules)) == (TYPES.TASK_TYPE_CODE, ["f"])
    assert changed.version != book.version


@pytest.mark.parametrize(
    ("messages", "field"),
    [((), "messages"), ((user("x"), chat_pb2.Message(content="y")), "messages[1].role")],
)
async def test_wrong_requests_are_refused_by_field_and_the_next_one_works(classify, messages, field):
    with pytest.raises(InvalidRequest) as caught:
        await classify(*messages)
    assert caught.value.field == field
    assert (await classify("hello")).task_type == TYPES.TASK_TYPE_GREETING


@pytest.mark.parametrize(
    "text", ["", "\x00\x01", "🙂" * 1000, "a" * 100_000, "我" * 100_000, "((a+)+" * 5000, "first then " * 9000]
)
async def test_any_text_is_judged(classify, text):
    response = await classify(text)
    assert response.task_type != TYPES.TASK_TYPE_UNSPECIFIED
    assert response.features["pattern_overrun_count"] == 0


async def test_it_is_healthy_and_reflects(channel):
    stub = health_pb2_grpc.HealthStub(channel)
    name = "tiermesh.api.classifier.v1.ClassifierService"
    response = await stub.Check(health_pb2.HealthCheckRequest(service=name), timeout=60)
    assert response.status == health_pb2.HealthCheckResponse.SERVING
    with pytest.raises(grpc.aio.AioRpcError):
        await stub.Check(health_pb2.HealthCheckRequest(service="nothing"), timeout=60)
