"""The ingress for gRPC callers: the same listener, real statuses, nothing of HTTP's error bodies."""

import asyncio

import grpc
import pytest
from google.api import httpbody_pb2
from grpc_reflection.v1alpha import reflection_pb2, reflection_pb2_grpc
from harness.envoy import KEY
from harness.short_deadlines import until_one_arrives
from tiermesh.api.common.v1 import chat_pb2
from tiermesh.api.openai.v1 import openai_pb2_grpc
from tiermesh.api.router.v1 import router_pb2, router_pb2_grpc
from tiermesh.shared.rpc import error_from_rpc, open_channel

pytestmark = pytest.mark.envoy
AUTH = (("authorization", f"Bearer {KEY}"),)


def request(text="ok"):
    return router_pb2.GenerateRequest(messages=[chat_pb2.Message(role=chat_pb2.ROLE_USER, content=text)])


def channel_of(plane):
    return open_channel(f"127.0.0.1:{plane.config.network.ingress_port}")


async def failure(call):
    with pytest.raises(grpc.aio.AioRpcError) as caught:
        if hasattr(call, "__aiter__"):
            [_ async for _ in call]
        else:
            await call
    return caught.value


async def test_streams_reach_the_router_with_tenant_and_deadline(data_plane):
    async with data_plane() as plane, channel_of(plane) as channel:
        stub = router_pb2_grpc.RouterServiceStub(channel)
        events = [event async for event in stub.Generate(request(), timeout=60, metadata=AUTH)]
        assert [event.WhichOneof("event") for event in events] == ["route", "delta", "delta", "done"]
        seen = plane.router.seen
        assert seen.metadata[-1]["x-tiermesh-tenant"] == "acme"
        # Envoy keeps 50 ms for itself.
        assert 30 < seen.remaining[-1] < 60.06


async def test_failures_keep_their_status_message_and_details(data_plane):
    async with data_plane() as plane, channel_of(plane) as channel:
        error = await failure(router_pb2_grpc.RouterServiceStub(channel).Generate(request("error"), metadata=AUTH))
        assert (error.code(), error.details()) == (grpc.StatusCode.UNAVAILABLE, "no tier")
        assert error_from_rpc(error).field == "model"
        body = httpbody_pb2.HttpBody(data=b'{"messages": [{"content": "error"}]}')
        error = await failure(openai_pb2_grpc.OpenAIServiceStub(channel).CreateChatCompletion(body, metadata=AUTH))
        assert (error.code(), error.details()) == (grpc.StatusCode.INVALID_ARGUMENT, "bad temperature")


async def test_envoys_own_failures_are_plain_statuses(data_plane):
    async with data_plane(limits={"requests_per_second": 1, "burst": 2}) as plane, channel_of(plane) as channel:
        stub = router_pb2_grpc.RouterServiceStub(channel)
        error = await failure(stub.Explain(router_pb2.ExplainRequest()))
        assert error.code() is grpc.StatusCode.UNAUTHENTICATED
        assert "{" not in error.details()
        unknown = channel.unary_unary("/nonesuch.Service/Method")
        error = await failure(unknown(b"", metadata=AUTH))
        assert error.code() is grpc.StatusCode.UNIMPLEMENTED
        assert "{" not in error.details()
        # At once, because one more is allowed with every second.
        asked = [failure_or_none(stub.Explain(router_pb2.ExplainRequest(), metadata=AUTH)) for _ in range(30)]
        limited = [e for e in await asyncio.gather(*asked) if e is not None]
        assert limited
        assert {e.code() for e in limited} == {grpc.StatusCode.RESOURCE_EXHAUSTED}
        assert "{" not in limited[0].details()


async def failure_or_none(call):
    try:
        await call
    except grpc.aio.AioRpcError as error:
        return error
    return None


async def test_no_upstream_is_unavailable(data_plane):
    async with data_plane() as plane, channel_of(plane) as channel:
        await plane.router.server.set_serving(False)
        await plane.envoy.healthy("router", 0)
        stub = router_pb2_grpc.RouterServiceStub(channel)
        error = await failure(stub.Generate(request(), metadata=AUTH))
        assert (error.code(), error.details()) == (grpc.StatusCode.UNAVAILABLE, "no healthy upstream")


async def test_deadlines_end_on_time_and_cancel(data_plane):
    async with data_plane() as plane, channel_of(plane) as channel:
        stub = router_pb2_grpc.RouterServiceStub(channel)

        async def ask(deadline_s: float) -> grpc.aio.AioRpcError:
            return await failure(stub.Generate(request("hang-first"), timeout=deadline_s, metadata=AUTH))

        ended = await until_one_arrives(ask, plane.router.seen.in_time)
        assert ended.result.code() is grpc.StatusCode.DEADLINE_EXCEEDED
        assert ended.deadline_s - 0.1 < ended.took_s < ended.deadline_s + 10
        async with asyncio.timeout(60):
            await plane.router.seen.cancelled.wait()


async def test_cancellation_reaches_the_router(data_plane):
    async with data_plane() as plane, channel_of(plane) as channel:
        call = router_pb2_grpc.RouterServiceStub(channel).Generate(request("hang"), metadata=AUTH)
        assert (await call.read()).WhichOneof("event") == "route"
        call.cancel()
        async with asyncio.timeout(60):
            await plane.router.seen.cancelled.wait()


async def test_reflection_and_health_pass(data_plane):
    async with data_plane() as plane, channel_of(plane) as channel:
        stub = reflection_pb2_grpc.ServerReflectionStub(channel)
        call = stub.ServerReflectionInfo(
            iter([reflection_pb2.ServerReflectionRequest(list_services="")]), metadata=AUTH
        )
        names = {s.name async for r in call for s in r.list_services_response.service}
        assert "tiermesh.api.router.v1.RouterService" in names
