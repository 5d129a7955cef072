"""A real router in this process whose neighbours are reached through a real Envoy."""

import asyncio
from contextlib import AsyncExitStack, asynccontextmanager

import grpc
from harness.router import AMPLE, METADATA, Answer, ask
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from tiermesh.api.router.v1 import router_pb2, router_pb2_grpc
from tiermesh.router.app import wire
from tiermesh.router.settings import Settings, make_snapshot
from tiermesh.shared.endpoints import mesh_target
from tiermesh.shared.rpc import error_from_rpc, open_channel, open_server
from tiermesh.shared.testing import recorded_tracing


class RoutedMesh:
    """A router whose engines are reached through Envoy."""

    def __init__(self, channel, metrics, tracing):
        self.stub = router_pb2_grpc.RouterServiceStub(channel)
        self.metrics, self.tracing = metrics, tracing

    async def send(self, text, **fields):
        """Returns the call and its first event, or the error that came instead."""
        # No two of them are one, however alike they are.
        request = ask(text, cache_mode=router_pb2.CACHE_MODE_OFF, **fields)
        call = self.stub.Generate(request, timeout=60, metadata=METADATA)
        answer = Answer()
        try:
            answer.messages.append(await call.read())
        except grpc.aio.AioRpcError as error:
            answer.error = error_from_rpc(error)
        return call, answer

    async def whole(self, text, **fields):
        """Returns a whole answer."""
        call, answer = await self.send(text, **fields)
        return answer if answer.error is not None else await rest(call, answer)

    async def explain(self, **fields):
        """Returns the label that a request would get."""
        request = router_pb2.ExplainRequest(request=ask(**fields))
        return (await self.stub.Explain(request, timeout=60, metadata=METADATA)).route

    def figures(self, name):
        """Returns the values of an instrument, by their attributes."""
        data = self.metrics.get_metrics_data()
        found = [m for r in data.resource_metrics for s in r.scope_metrics for m in s.metrics if m.name == name]
        return {tuple(sorted(p.attributes.items())): p.value for m in found for p in m.data.data_points}


async def rest(call, answer):
    """Reads an answer to its end."""
    while (event := await call.read()) is not grpc.aio.EOF:
        answer.messages.append(event)
    return answer


@asynccontextmanager
async def routed_through(plane, *, follow_loads):
    """Starts a router; the streams by which it follows loads are calls of the engines, too."""
    channels = {}

    def connect(cluster):
        if cluster not in channels:
            channels[cluster] = open_channel(mesh_target(plane.config), authority=cluster)
        return channels[cluster]

    with recorded_tracing() as tracing:
        async with AsyncExitStack() as stack:
            reader = InMemoryMetricReader()
            provider = MeterProvider([reader], shutdown_on_exit=False)
            stack.callback(provider.shutdown)
            settings = Settings(make_snapshot(plane.config, rules=b"", loaded_at=1.0))
            meter = provider.get_meter("tiermesh")
            wired = wire(settings, connect=connect, tracer=tracing.tracer, meter=meter, leeway=AMPLE)
            server = await stack.enter_async_context(
                open_server(wired.services, address="127.0.0.1:0", tracing=tracing, default_deadline_s=60)
            )
            channel = await stack.enter_async_context(open_channel(f"127.0.0.1:{server.port}"))
            watching = [asyncio.create_task(one.run()) for one in (wired.replicas, wired.loads) if follow_loads]
            try:
                yield RoutedMesh(channel, reader, tracing)
            finally:
                for task in watching:
                    task.cancel()
                await asyncio.gather(*watching, return_exceptions=True)
            await wired.stores.drain()
            for opened in channels.values():
                await opened.close()
