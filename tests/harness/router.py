"""A real router server with scripted neighbours, all over real connections."""

import asyncio
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path

import grpc
from google.api import httpbody_pb2
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from tiermesh.api.common.v1 import chat_pb2
from tiermesh.api.openai.v1 import openai_pb2_grpc
from tiermesh.api.router.v1 import router_pb2, router_pb2_grpc
from tiermesh.router.app import wire
from tiermesh.router.leeway import Leeway
from tiermesh.router.openai.errors import openai_trailers
from tiermesh.router.settings import Settings, make_snapshot
from tiermesh.shared.config import parse_config
from tiermesh.shared.rpc import error_from_rpc, open_channel, open_server
from tiermesh.shared.testing import (
    FakeCache,
    FakeClassifier,
    FakeOutcomes,
    ScriptedEngine,
    answer_steps,
    recorded_tracing,
)

RAW = {
    "tenants": [{"name": "acme", "key_env": "KEYS"}],
    # Generous, so that a machine that is busy or stalls does not turn into misses; tests of the caps lower them.
    "deadlines": {"cache_ms": 30_000, "classifier_ms": 30_000},
    "lanes": {
        "simple": {"deadline_ms": 60_000, "queue_ms": 20_000},
        "complex": {"deadline_ms": 60_000, "queue_ms": 20_000},
    },
    "tiers": [
        {
            "name": "l0",
            "backend": "rules",
            "context_tokens": 4096,
            "max_complexity": 0.1,
            "task_types": ["greeting", "faq"],
        },
        {
            "name": "l1",
            "backend": "vllm",
            "model": "small",
            "context_tokens": 2048,
            "answer_tokens": 256,
            "max_complexity": 0.5,
            "excluded_task_types": ["code"],
        },
        {"name": "l2", "backend": "vllm", "model": "large", "context_tokens": 8192, "answer_tokens": 1024},
    ],
}
EARLY_END = {**RAW["deadlines"], "reserve_ms": 30_000}
"""Deadlines that leave the end of an answer 30 s to reach its caller: a stalled machine must not make it late."""
RESERVE_S = EARLY_END["reserve_ms"] / 1000
AMPLE = Leeway(
    store_s=60.0,
    store_drain_s=60.0,
    rerun_drain_s=60.0,
    publish_s=60.0,
    lookup_s=5.0,
    outcome_s=60.0,
    failure_s=3600.0,
)
"""What has failed once stays so until it answers, and what takes its time is waited for."""
METADATA = (("x-tiermesh-tenant", "acme"), ("x-request-id", "req-1"))


def make_settings(**changes):
    return Settings(make_snapshot(parse_config({**RAW, **changes}, Path("/none/mesh.yaml")), rules=b"", loaded_at=1.0))


def ask(text="What is a river?", **fields):
    request = router_pb2.GenerateRequest(messages=[chat_pb2.Message(role=chat_pb2.ROLE_USER, content=text)])
    request.MergeFrom(router_pb2.GenerateRequest(**fields))
    return request


class Answer:
    """What came back from one streaming call."""

    def __init__(self):
        self.messages, self.headers, self.error, self.trailers = [], {}, None, {}

    def kinds(self):
        return [message.WhichOneof("event") for message in self.messages]

    @property
    def route(self):
        return self.messages[0].route

    @property
    def last(self):
        return self.messages[-1]

    @property
    def text(self):
        return "".join(m.delta.text for m in self.messages if m.HasField("delta"))

    @property
    def body(self):
        return b"".join(message.data for message in self.messages)


class RunningRouter:
    """The router and its neighbours."""

    def __init__(self, settings, tracing):
        self.settings, self.tracing = settings, tracing
        self.cache, self.classifier, self.outcomes = FakeCache(), FakeClassifier(), FakeOutcomes()
        self.engines = {name: ScriptedEngine(*answer_steps(f"{name} ", "says ", "你好")) for name in ("l0", "l1", "l2")}

    async def open(self, stack):
        async def host(service):
            opened = open_server([service], address="127.0.0.1:0", tracing=self.tracing, default_deadline_s=100)
            return await stack.enter_async_context(opened)

        self.servers = {
            "cache": await host(self.cache.service()),
            "classifier": await host(self.classifier.service()),
            "outcomes": await host(self.outcomes.service()),
            **{f"engine-{name}": await host(engine.service()) for name, engine in self.engines.items()},
        }
        channels = {}

        def connect(cluster):
            if cluster not in channels:
                channels[cluster] = open_channel(f"127.0.0.1:{self.servers[cluster].port}", authority=cluster)
            return channels[cluster]

        self.metrics = InMemoryMetricReader()
        provider = MeterProvider([self.metrics], shutdown_on_exit=False)
        stack.callback(provider.shutdown)
        meter = provider.get_meter("tiermesh")
        self.wired = wire(self.settings, connect=connect, tracer=self.tracing.tracer, meter=meter, leeway=AMPLE)
        self.server = await stack.enter_async_context(
            open_server(
                self.wired.services,
                address="127.0.0.1:0",
                tracing=self.tracing,
                default_deadline_s=100,
                trailers=openai_trailers,
            )
        )
        channel = await stack.enter_async_context(open_channel(f"127.0.0.1:{self.server.port}"))
        sending = asyncio.create_task(self.wired.outcomes.run())

        async def close():
            sending.cancel()
            await self.wired.stores.drain()
            for opened in channels.values():
                await opened.close()

        stack.push_async_callback(close)
        self.router = router_pb2_grpc.RouterServiceStub(channel)
        self.openai = openai_pb2_grpc.OpenAIServiceStub(channel)

    async def _read(self, call):
        answer = Answer()
        try:
            async for message in call:
                answer.messages.append(message)
        except grpc.aio.AioRpcError as error:
            answer.error, answer.status = error_from_rpc(error), error.code()
            answer.trailers = dict(error.trailing_metadata() or ())
        answer.headers = dict(await call.initial_metadata())
        return answer

    async def generate(self, request=None, *, timeout=100, metadata=METADATA):
        return await self._read(self.router.Generate(request or ask(), timeout=timeout, metadata=metadata))

    def counted(self, name):
        """Returns the data points of an instrument, by their attributes."""
        data = self.metrics.get_metrics_data()
        resources = data.resource_metrics if data is not None else ()
        found = [m for r in resources for s in r.scope_metrics for m in s.metrics if m.name == name]
        return {tuple(sorted(p.attributes.items())): p for m in found for p in m.data.data_points}

    async def report(self, metadata=METADATA, timeout=60, **fields):
        try:
            return await self.router.ReportOutcome(
                router_pb2.ReportOutcomeRequest(**fields), timeout=timeout, metadata=metadata
            )
        except grpc.aio.AioRpcError as error:
            raise error_from_rpc(error) from None

    async def explain(self, request=None):
        wanted = router_pb2.ExplainRequest(request=request or ask())
        return await self.router.Explain(wanted, timeout=100, metadata=METADATA)

    async def chat(self, body, *, timeout=100, metadata=METADATA):
        request = httpbody_pb2.HttpBody(content_type="application/json", data=body)
        return await self._read(self.openai.CreateChatCompletion(request, timeout=timeout, metadata=metadata))


@asynccontextmanager
async def running_router(*, engines=None, **changes):
    """Starts the router and its neighbours.

    Args:
        engines: Servicers that take the place of scripted engines, by tier.
        changes: Sections of the configuration that are replaced.
    """
    with recorded_tracing() as tracing:
        async with AsyncExitStack() as stack:
            router = RunningRouter(make_settings(**changes), tracing)
            router.engines.update(engines or {})
            await router.open(stack)
            yield router
