"""Services of the mesh that do what a test tells them, on the ports where the real ones would be.

The text of the last message says what happens: `ok`, `sse`, `error`, `late-error`, `hang`, `slow`,
`unavailable`, `down`, `stopped`.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import grpc
from google.api import httpbody_pb2
from tiermesh.api.common.v1 import answer_pb2
from tiermesh.api.engine.v1 import engine_pb2, engine_pb2_grpc
from tiermesh.api.openai.v1 import openai_pb2_grpc
from tiermesh.api.router.v1 import router_pb2, router_pb2_grpc
from tiermesh.shared.endpoints import Endpoint
from tiermesh.shared.errors import Unavailable
from tiermesh.shared.headers import OPENAI_ERROR
from tiermesh.shared.rpc import RunningServer, ServerTls, Service, open_server
from tiermesh.shared.testing import recorded_tracing


@dataclass
class Seen:
    """What a stub has seen of its calls."""

    metadata: list[dict[str, str]] = field(default_factory=list)
    remaining: list[float | None] = field(default_factory=list)
    calls: list[str] = field(default_factory=list)
    in_time: list[str] = field(default_factory=list)
    """Calls whose deadline had not passed when they came."""
    started: asyncio.Event = field(default_factory=asyncio.Event)
    cancelled: asyncio.Event = field(default_factory=asyncio.Event)
    release: asyncio.Event = field(default_factory=asyncio.Event)
    """Ends calls that hang."""

    def note(self, what: str, context: Any) -> None:
        """Remembers a call."""
        self.calls.append(what)
        self.metadata.append({k: v for k, v in context.invocation_metadata() if isinstance(v, str)})
        remaining = context.time_remaining()
        self.remaining.append(remaining)
        if remaining is None or remaining > 0:
            self.in_time.append(what)
        self.started.set()

    async def hang(self) -> None:
        """Waits for `release`, and notes being cancelled."""
        try:
            await self.release.wait()
        except asyncio.CancelledError:
            self.cancelled.set()
            raise


class StubRouter(router_pb2_grpc.RouterServiceServicer):
    """RouterService."""

    def __init__(self, seen: Seen) -> None:
        self.seen = seen

    async def Generate(self, request, context):
        """Streams a route label, text, and an end."""
        what = request.messages[-1].content if request.messages else "ok"
        self.seen.note(what, context)
        if what == "error":
            raise Unavailable("no tier", field="model")
        if what == "stopped":
            await context.abort(grpc.StatusCode.CANCELLED)
        if what == "hang-first":
            await self.seen.hang()
        yield router_pb2.GenerateResponse(route=router_pb2.RouteLabel(tier="l1", request_id="r1"))
        for text in ("hel", "lo 你好"):
            yield router_pb2.GenerateResponse(delta=answer_pb2.Delta(text=text))
        if what == "hang":
            await self.seen.hang()
        yield router_pb2.GenerateResponse(done=router_pb2.Done(usage=answer_pb2.Usage(completion_token_count=2)))

    async def Explain(self, request, context):
        """Answers at once."""
        self.seen.note("explain", context)
        return router_pb2.ExplainResponse(candidates=["l1"], fingerprint="x" * len(str(request.request.model)))


class StubOpenAI(openai_pb2_grpc.OpenAIServiceServicer):
    """OpenAIService."""

    def __init__(self, seen: Seen) -> None:
        self.seen = seen

    async def CreateChatCompletion(self, request, context):
        """Answers with one document, or with events."""
        body = json.loads(request.data)
        what = body["messages"][-1]["content"]
        self.seen.note(what, context)
        if what == "error":
            error = {"error": {"message": "bad temperature", "type": "invalid_request_error", "param": "temperature", "code": "INVALID_REQUEST"}}  # fmt: skip
            await context.abort(
                grpc.StatusCode.INVALID_ARGUMENT, "bad temperature", ((OPENAI_ERROR, json.dumps(error)),)
            )
        if what == "hang":
            await self.seen.hang()
        await context.send_initial_metadata((("x-tiermesh-tier", "l1"),))
        if body.get("stream"):
            for piece in ("a", "b"):
                data = f"data: {json.dumps({'text': piece})}\n\n".encode()
                yield httpbody_pb2.HttpBody(content_type="text/event-stream", data=data)
            if what == "stream-hang":
                await self.seen.hang()
            yield httpbody_pb2.HttpBody(content_type="text/event-stream", data=b"data: [DONE]\n\n")
        else:
            answer = {"ok": True, "size": len(request.data)}
            yield httpbody_pb2.HttpBody(content_type="application/json", data=json.dumps(answer).encode())

    async def ListModels(self, request, context):
        """Lists one model."""
        self.seen.note("models", context)
        data = json.dumps({"object": "list", "data": [{"id": "auto"}]}).encode()
        return httpbody_pb2.HttpBody(content_type="application/json", data=data)

    async def GetModel(self, request, context):
        """Repeats the name asked for."""
        self.seen.note("model", context)
        return httpbody_pb2.HttpBody(content_type="application/json", data=json.dumps({"id": request.model}).encode())


class StubEngine(engine_pb2_grpc.EngineServiceServicer):
    """EngineService."""

    def __init__(self, seen: Seen) -> None:
        self.seen = seen
        self.failures = 0
        """How many calls fail with UNAVAILABLE before one succeeds."""

    async def Generate(self, request, context):
        """Streams two pieces; hangs between them where the prompt is `hang`."""
        what = request.messages[-1].content if request.messages else "ok"
        self.seen.note(what, context)
        if self.failures > 0:
            self.failures -= 1
            raise Unavailable("the device failed")
        if what == "hang-first":
            await self.seen.hang()
        yield engine_pb2.GenerateResponse(delta=answer_pb2.Delta(text="one"))
        if what == "hang":
            await self.seen.hang()
        if what == "late-unavailable":
            raise Unavailable("the device failed")
        yield engine_pb2.GenerateResponse(done=engine_pb2.Done())

    async def GetModel(self, request, context):
        """Describes a model."""
        self.seen.note("model", context)
        return engine_pb2.GetModelResponse(tier="l1", model="stub")


@dataclass
class RunningStub:
    """A stub that serves."""

    seen: Seen
    server: RunningServer
    engine: StubEngine


@asynccontextmanager
async def running_stub(
    endpoint: Endpoint, *, drain_s: float = 0.0, tls: ServerTls | None = None
) -> AsyncIterator[RunningStub]:
    """Serves all three services at an endpoint."""
    seen = Seen()
    engine = StubEngine(seen)
    services = [
        Service("tiermesh.api.router.v1.RouterService", partial(router_pb2_grpc.add_RouterServiceServicer_to_server, StubRouter(seen))),
        Service("tiermesh.api.openai.v1.OpenAIService", partial(openai_pb2_grpc.add_OpenAIServiceServicer_to_server, StubOpenAI(seen))),
        Service("tiermesh.api.engine.v1.EngineService", partial(engine_pb2_grpc.add_EngineServiceServicer_to_server, engine)),
    ]  # fmt: skip
    with recorded_tracing() as tracing:
        async with open_server(
            services, address=str(endpoint), tracing=tracing, default_deadline_s=600, drain_s=drain_s, tls=tls
        ) as server:
            await server.set_serving(True)
            try:
                yield RunningStub(seen, server, engine)
            finally:
                seen.release.set()
