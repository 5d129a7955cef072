"""What Envoy does for a cluster, in this process: fewest requests first, one more try elsewhere, the tenant, the deadline.

It passes bytes, so that any method of any service goes through. Its two rules for trying again are those of
`tiermesh.mesh.resources.routes`.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from typing import Any

import grpc
from tiermesh.shared import headers
from tiermesh.shared.rpc import has_details, open_channel

_LEFT_ALONE_S = 0.2
"""How long a replica whose connection broke gets nothing."""
_OFFSET_S = 0.05
"""By how much the router's timer is later than the caller's own; the router keeps back twice as much."""
_HOP_BY_HOP = ("user-agent", "grpc-accept-encoding", "authorization", headers.TENANT, headers.DEADLINE)


@dataclass
class _Replica:
    channel: grpc.aio.Channel
    in_hand: int = 0
    broke_at: float = -1e9


class FrontDoor(grpc.GenericRpcHandler):
    """A cluster's door.

    Args:
        channels: One to each replica.
        tenant: Given to callers with any key, for the ingress; None where the callers are services.
    """

    def __init__(self, channels: Sequence[grpc.aio.Channel], *, tenant: str | None = None) -> None:
        self._replicas = [_Replica(channel) for channel in channels]
        self._tenant = tenant

    def service(self, handler_call_details: Any) -> Any:
        """Takes every method."""
        method = handler_call_details.method

        async def forward(request: bytes, context: Any) -> AsyncIterator[bytes]:
            async for message in self._forward(method, request, context):
                yield message

        # On the wire a unary answer is a stream of one message.
        return grpc.unary_stream_rpc_method_handler(forward)

    def _metadata(self, context: Any) -> tuple[tuple[str, Any], ...]:
        kept = tuple((k, v) for k, v in context.invocation_metadata() if k not in _HOP_BY_HOP)
        if self._tenant is None:
            return kept
        return (*kept, (headers.TENANT, self._tenant), (headers.DEADLINE, "sent"))

    async def _forward(self, method: str, request: bytes, context: Any) -> AsyncIterator[bytes]:
        loop, tried = asyncio.get_running_loop(), set[int]()
        left = context.time_remaining()
        if left is not None and self._tenant is not None:
            left += _OFFSET_S
        ends = None if left is None else loop.time() + left
        while True:
            replica = self._pick(tried, loop.time())
            tried.add(id(replica))
            replica.in_hand += 1
            timeout = None if ends is None else max(0.001, ends - loop.time())
            call = replica.channel.unary_stream(method)(request, timeout=timeout, metadata=self._metadata(context))
            begun = False
            try:
                async for message in call:
                    if not begun:
                        begun = True
                        await context.send_initial_metadata(await call.initial_metadata())
                    yield message
            except grpc.aio.AioRpcError as error:
                gone = error.code() is grpc.StatusCode.UNAVAILABLE and not has_details(error)
                if gone:
                    replica.broke_at = loop.time()
                again = gone or (self._tenant is None and error.code() is grpc.StatusCode.UNAVAILABLE)
                if again and not begun and len(tried) < min(2, len(self._replicas)):
                    continue
                code = grpc.StatusCode.INTERNAL if gone and begun else error.code()
                mark = (("server", headers.INGRESS_SERVER),) if self._tenant is not None else ()
                await context.abort(code, error.details() or "", (*tuple(error.trailing_metadata() or ()), *mark))
            else:
                return
            finally:
                call.cancel()
                replica.in_hand -= 1

    def _pick(self, tried: set[int], now: float) -> _Replica:
        untried = [replica for replica in self._replicas if id(replica) not in tried]
        usable = [replica for replica in untried if now - replica.broke_at > _LEFT_ALONE_S]
        return min(usable or untried, key=lambda replica: replica.in_hand)


@asynccontextmanager
async def open_door(ports: Sequence[int], *, tenant: str | None = None) -> AsyncIterator[int]:
    """Opens a door to the replicas at `ports`; yields its own port."""
    async with AsyncExitStack() as stack:
        channels = [await stack.enter_async_context(open_channel(f"127.0.0.1:{port}")) for port in ports]
        server = grpc.aio.server(options=[("grpc.so_reuseport", 0)])
        server.add_generic_rpc_handlers((FrontDoor(channels, tenant=tenant),))
        port = server.add_insecure_port("127.0.0.1:0")
        await server.start()
        try:
            yield port
        finally:
            await server.stop(0)
