"""Transport of ADS: reads requests, feeds the state machine of the stream, writes its responses."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Callable
from contextlib import aclosing
from typing import Any, Protocol

import grpc
from envoy.service.discovery.v3 import ads_pb2_grpc
from tiermesh.mesh.ads.delta import DeltaStream
from tiermesh.mesh.ads.sotw import SotwStream
from tiermesh.mesh.ads.subscribers import Protocol as Variant
from tiermesh.mesh.ads.subscribers import Subscriber, Subscribers, UnknownNode, identify
from tiermesh.mesh.cache import SnapshotCache
from tiermesh.mesh.snapshot import Snapshot
from tiermesh.shared.telemetry import get_logger

_log = get_logger(__name__)

_CHANGED = object()
_ENDED = object()


class _Stream(Protocol):
    def on_request(self, request: Any) -> list[Any]: ...

    def on_snapshot(self, snapshot: Snapshot) -> list[Any]: ...


class AdsServicer(ads_pb2_grpc.AggregatedDiscoveryServiceServicer):  # type: ignore[misc] # generated without types
    """`envoy.service.discovery.v3.AggregatedDiscoveryService`, both variants."""

    def __init__(self, snapshots: SnapshotCache, subscribers: Subscribers) -> None:
        self._snapshots = snapshots
        self._subscribers = subscribers

    async def StreamAggregatedResources(self, request_iterator: Any, context: Any) -> AsyncIterator[Any]:  # noqa: N802 -- gRPC's name
        """Serves a state-of-the-world stream."""
        async with aclosing(self._serve(request_iterator, context, "sotw", SotwStream)) as responses:
            async for response in responses:
                yield response

    async def DeltaAggregatedResources(self, request_iterator: Any, context: Any) -> AsyncIterator[Any]:  # noqa: N802 -- gRPC's name
        """Serves a delta stream."""
        async with aclosing(self._serve(request_iterator, context, "delta", DeltaStream)) as responses:
            async for response in responses:
                yield response

    async def _serve(
        self, requests: Any, context: Any, variant: Variant, make_stream: Callable[[Subscriber, Snapshot], _Stream]
    ) -> AsyncGenerator[Any]:
        # One queue for requests and changes: a stream handles one thing at a time, in order of arrival.
        inbox: asyncio.Queue[Any] = asyncio.Queue()
        reader = asyncio.ensure_future(_read(requests, inbox))
        try:
            first = await inbox.get()
            if first is _ENDED:
                return
            # Only the first message carries the node.
            try:
                subscriber = identify(first.node, variant)
            except UnknownNode as error:
                _log.warning("refused an xDS stream", reason=str(error))
                await context.abort(grpc.StatusCode.INVALID_ARGUMENT, str(error))
                return
            snapshot = self._snapshots.get(subscriber.role)
            if snapshot is None:
                await context.abort(grpc.StatusCode.UNAVAILABLE, "nothing has been published yet")
                return
            stream = make_stream(subscriber, snapshot)
            with (
                self._subscribers.joined(subscriber),
                self._snapshots.watching(lambda: inbox.put_nowait(_CHANGED)),
            ):
                _log.info("xDS stream opened", node=subscriber.node_id, role=subscriber.role, protocol=variant)
                item = first
                while item is not _ENDED:
                    for response in self._handle(stream, subscriber, item):
                        yield response
                    item = await inbox.get()
        finally:
            reader.cancel()
            # A client that vanished is no news; its error is taken here so that nobody reports it as lost.
            await asyncio.gather(reader, return_exceptions=True)

    def _handle(self, stream: _Stream, subscriber: Subscriber, item: Any) -> list[Any]:
        if item is _CHANGED:
            snapshot = self._snapshots.get(subscriber.role)
            return stream.on_snapshot(snapshot) if snapshot is not None else []
        if item.HasField("error_detail"):
            _log.error(
                "Envoy refused a resource",
                node=subscriber.node_id,
                type=item.type_url.rpartition(".")[2],
                reason=item.error_detail.message,
            )
        return stream.on_request(item)


async def _read(requests: Any, inbox: asyncio.Queue[Any]) -> None:
    try:
        async for request in requests:
            inbox.put_nowait(request)
    finally:
        inbox.put_nowait(_ENDED)
