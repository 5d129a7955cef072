"""RouterService through Envoy: gRPC, reflection, and the same calls as JSON and server-sent events."""

import json
import time

import grpc
import pytest
from grpc_reflection.v1alpha import reflection_pb2, reflection_pb2_grpc
from harness.eventually import eventually
from tiermesh.api.common.v1 import chat_pb2
from tiermesh.api.engine.v1 import engine_pb2, engine_pb2_grpc
from tiermesh.api.router.v1 import router_pb2, router_pb2_grpc
from tiermesh.shared.endpoints import engine_cluster, replica_endpoint
from tiermesh.shared.rpc import error_from_rpc, open_channel


def user(text):
    return chat_pb2.Message(role=chat_pb2.ROLE_USER, content=text)


def request(text, model="auto", max_tokens=16, cache=router_pb2.CACHE_MODE_OFF):
    return router_pb2.GenerateRequest(
        model=model,
        messages=[user(text)],
        sampling=chat_pb2.Sampling(max_tokens=max_tokens, temperature=0),
        cache_mode=cache,
    )


async def generate(mesh, message, timeout=60):
    async with mesh.channel() as channel:
        stub = router_pb2_grpc.RouterServiceStub(channel)
        return [event async for event in stub.Generate(message, timeout=timeout, metadata=mesh.metadata)]


async def test_generate_streams_route_then_text_then_one_terminal_event(mesh):
    events = await generate(mesh, request("Tell me about rivers."))
    kinds = [event.WhichOneof("event") for event in events]
    assert kinds[0] == "route"
    assert kinds[-1] == "done"
    assert set(kinds[1:-1]) == {"delta"}
    route, done = events[0].route, events[-1].done
    assert (route.tier, route.cache_status) == ("l1", router_pb2.CACHE_STATUS_BYPASS)
    assert [v.tier for v in route.verdicts] == ["l0", "l1", "l2"]
    assert len(route.trace_id) == 32
    assert route.request_id
    assert done.usage.completion_token_count > 0
    assert [a.outcome for a in done.attempts] == ["answered"]
    first, total = done.time_to_first_token.ToMilliseconds(), done.total.ToMilliseconds()
    assert 0 < first <= total


async def test_explain_decides_without_generating(mesh):
    async with mesh.channel() as channel:
        stub = router_pb2_grpc.RouterServiceStub(channel)
        ask = router_pb2.ExplainRequest(request=request("写一个Python函数，实现快速排序，并解释它的复杂度"))
        answer = await stub.Explain(ask, timeout=60, metadata=mesh.metadata)
    assert answer.route.tier == "l2"
    assert answer.candidates[0] == "l2"
    assert answer.classification.task_type == answer.route.task_type
    assert answer.classification.features
    assert answer.classification.languages[0] == "zh"
    assert len(answer.fingerprint) == 64


async def test_reflection_shows_the_api_to_generic_clients(mesh):
    async with mesh.channel() as channel:
        stub = reflection_pb2_grpc.ServerReflectionStub(channel)
        asked = iter(
            [
                reflection_pb2.ServerReflectionRequest(list_services=""),
                reflection_pb2.ServerReflectionRequest(file_containing_symbol="tiermesh.api.router.v1.RouterService"),
            ]
        )
        listed, described = [r async for r in stub.ServerReflectionInfo(asked, metadata=mesh.metadata)]
    names = {service.name for service in listed.list_services_response.service}
    assert {"tiermesh.api.router.v1.RouterService", "tiermesh.api.openai.v1.OpenAIService"} <= names
    assert described.file_descriptor_response.file_descriptor_proto


def test_generate_as_json_over_http_streams_typed_events(mesh):
    body = {
        "model": "tier:l1",
        "messages": [{"role": "ROLE_USER", "content": "Tell me about rivers."}],
        "sampling": {"max_tokens": 8, "temperature": 0},
        "cache_mode": "CACHE_MODE_OFF",
    }
    with mesh.http() as client, client.stream("POST", "/v1/generate", json=body) as response:
        assert response.status_code == 200
        assert response.headers["x-tiermesh-tier"] == "l1"
        events = [json.loads(line.removeprefix("data: ")) for line in response.iter_lines() if line.strip()]
    assert list(events[0]) == ["route"]
    assert list(events[-1]) == ["done"]
    assert events[-1]["done"]["usage"]["completion_token_count"] == 8
    assert "".join(e["delta"].get("text", "") for e in events[1:-1])


def test_explain_as_json_over_http(mesh):
    body = {"request": {"messages": [{"role": "ROLE_USER", "content": "你好"}]}}
    with mesh.http() as client:
        answer = client.post("/v1/explain", json=body)
    assert answer.status_code == 200
    assert answer.json()["route"]["tier"] == "l0"
    assert answer.json()["route"]["task_type"] == "TASK_TYPE_GREETING"


@pytest.mark.parametrize(
    ("change", "field"),
    [
        ({"messages": []}, "messages"),
        ({"messages": [{"content": "x"}]}, "messages[0].role"),
        ({"sampling": {"temperature": 9}}, "sampling.temperature"),
    ],
)
def test_typed_errors_name_the_field_over_http(lite, change, field):
    body = {"messages": [{"role": "ROLE_USER", "content": "x"}], **change}
    with lite[0].http() as client:
        answer = client.post("/v1/generate", json=body)
    assert answer.status_code == 400
    assert field in answer.text


async def test_typed_errors_carry_reason_and_field_over_grpc(lite):
    with pytest.raises(grpc.aio.AioRpcError) as caught:
        await generate(lite[0], router_pb2.GenerateRequest(model="tier:l9", messages=[user("x")]))
    error = error_from_rpc(caught.value)
    assert (error.reason, error.field) == ("UNKNOWN_MODEL", "model")


async def test_grpc_callers_without_a_key_are_unauthenticated(lite):
    async with lite[0].channel() as channel:
        stub = router_pb2_grpc.RouterServiceStub(channel)
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            async for _ in stub.Generate(request("x"), timeout=60):
                pass
    assert caught.value.code() == grpc.StatusCode.UNAUTHENTICATED


async def test_a_deadline_ends_on_time_with_a_terminal_event_and_the_same_status(mesh):
    async with mesh.channel() as channel:
        stub = router_pb2_grpc.RouterServiceStub(channel)
        message = request("Write a long story.", model="tier:l2", max_tokens=1000)

        async def ended():
            events, begun = [], time.monotonic()
            with pytest.raises(grpc.aio.AioRpcError) as caught:
                async for event in stub.Generate(message, timeout=2.0, metadata=mesh.metadata):
                    events.append(event)
            took = time.monotonic() - begun
            assert caught.value.code() == grpc.StatusCode.DEADLINE_EXCEEDED
            assert 1.3 < took < 30
            # Where the mesh is not run for the half second that it keeps back, its last word comes too late.
            return events[-1] if events and events[-1].HasField("failure") else None

        last = await eventually(ended)
    assert last.failure.reason in {"BUDGET_EXHAUSTED", "INFERENCE_TIMEOUT"}


async def test_the_default_deadline_reaches_every_hop_and_shrinks(lite):
    mesh, collector = lite
    wanted = {"tiermesh-router", "tiermesh-classifier", "tiermesh-engine"}

    def told(spans):
        return {
            s.service: s.attributes["tiermesh.budget.in_ms"] for s in spans if "tiermesh.budget.in_ms" in s.attributes
        }

    async def all_told():
        events = await generate(mesh, request("How do rivers form in spring?"), timeout=None)
        spans = await collector.whole_trace(events[0].route.trace_id, lambda spans: wanted <= told(spans).keys())
        return told(spans) if spans else None

    budgets = await eventually(all_told)
    default = mesh.config.deadlines.default_ms
    assert default / 2 < budgets["tiermesh-router"] <= default
    assert budgets["tiermesh-engine"] < budgets["tiermesh-router"]
    # gRPC rounds a timeout below a second up to a whole millisecond.
    assert budgets["tiermesh-classifier"] <= mesh.config.deadlines.classifier_ms + 1


async def test_cancelling_frees_the_engine_and_not_one_more_token_is_made(mesh):
    address = str(replica_endpoint(mesh.config, engine_cluster("l2"), 0))
    async with mesh.channel() as channel, open_channel(address) as direct:
        loads = aiter(engine_pb2_grpc.EngineServiceStub(direct).WatchLoad(engine_pb2.WatchLoadRequest(), timeout=300))
        before = await anext(loads)
        # What another test has given up may not have got here yet.
        while before.running_count or before.waiting_count:
            before = await anext(loads)
        stub = router_pb2_grpc.RouterServiceStub(channel)
        load = before
        while load.aborted_count == before.aborted_count:
            # Again where this test was not run for so long that the answer had ended when it left.
            before = load
            call = stub.Generate(request("Write a story.", model="tier:l2", max_tokens=1000), metadata=mesh.metadata)
            async for event in call:
                if event.WhichOneof("event") == "delta":
                    break
            call.cancel()
            # The engine counts what it gave up; from then on only the next answer may add tokens.
            while load.running_count or load.generated_token_count == before.generated_token_count:
                load = await anext(loads)
        events = await generate(mesh, request("hello there", model="tier:l2", max_tokens=8))
        last = events[-1].done
        after = await anext(loads)
        while after.running_count or after.generated_token_count == load.generated_token_count:
            after = await anext(loads)
    assert load.aborted_count == before.aborted_count + 1
    assert after.generated_token_count - load.generated_token_count == last.usage.completion_token_count
    assert last.attempts[0].timing.queue.ToMilliseconds() < 10_000
