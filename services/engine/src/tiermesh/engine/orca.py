"""Load reports as Envoy and gRPC understand them: ORCA, xds.data.orca.v3 (gRFC A51).

The message is written by hand, four fields of it: the package that has it also brings old copies
of OpenTelemetry's messages, and an engine needs nothing else of it.
"""

from __future__ import annotations

import asyncio
import struct
from collections.abc import AsyncIterator, Callable, Mapping
from typing import Any

import grpc
from google.protobuf.duration_pb2 import Duration
from google.protobuf.message import DecodeError
from tiermesh.engine.load import Load
from tiermesh.shared.rpc import Service

SERVICE = "xds.service.orca.v3.OpenRcaService"

_MEM_UTILIZATION, _RPS_FRACTIONAL, _NAMED_METRICS, _APPLICATION_UTILIZATION = 2, 6, 8, 9
_REPORT_INTERVAL = 1
_DEFAULT_INTERVAL_S = 1.0
_SHORTEST_INTERVAL_S = 0.1


def load_report(load: Load) -> bytes:
    """Returns an `OrcaLoadReport`.

    Balancers weigh a replica by its rate over its utilization. The rate here is what a replica can
    have in hand at once, and an idle replica counts as half used: so a full one gets half of an
    idle one's share, and a backlog that much less. Answers last longer than reports are apart; a
    weight that followed the load more closely would send everything to one side and then to the
    other.
    """
    busy = (load.running + load.waiting) / load.slots
    return b"".join(
        (
            _double(_MEM_UTILIZATION, load.kv_cache_utilization),
            _double(_RPS_FRACTIONAL, float(load.slots)),
            _named({"kv_cache_util": load.kv_cache_utilization, "waiting": float(load.waiting)}),
            _double(_APPLICATION_UTILIZATION, (1.0 + busy) / 2.0),
        )
    )


def report_interval(request: bytes) -> float:
    """Returns the seconds between two reports that an `OrcaLoadReportRequest` asks for."""
    tag = _REPORT_INTERVAL << 3 | 2
    if len(request) < 2 or request[0] != tag or len(request) < 2 + request[1]:
        return _DEFAULT_INTERVAL_S
    try:
        interval = Duration.FromString(request[2 : 2 + request[1]]).ToTimedelta().total_seconds()
    except (DecodeError, OverflowError):
        return _DEFAULT_INTERVAL_S
    return max(_SHORTEST_INTERVAL_S, interval) if interval else _DEFAULT_INTERVAL_S


class LoadReporter:
    """OpenRcaService: reports by the clock, besides any answers.

    Args:
        load: Tells the load at the moment.
        ending: Set when the server is about to drain.
    """

    def __init__(self, load: Callable[[], Load], ending: asyncio.Event) -> None:
        self._load = load
        self._ending = ending

    async def stream(self, request: bytes, context: Any) -> AsyncIterator[bytes]:  # noqa: ARG002 -- gRPC's signature
        """Streams reports until the caller goes or the server drains."""
        interval = report_interval(request)
        while not self._ending.is_set():
            yield load_report(self._load())
            try:
                async with asyncio.timeout(interval):
                    await self._ending.wait()
            except TimeoutError:
                continue

    def service(self) -> Service:
        """Returns how to host it."""
        handler: Any = grpc.unary_stream_rpc_method_handler(self.stream)
        handlers = grpc.method_handlers_generic_handler(SERVICE, {"StreamCoreMetrics": handler})
        return Service(SERVICE, lambda server: server.add_generic_rpc_handlers((handlers,)))


def _double(field: int, value: float) -> bytes:
    return bytes((field << 3 | 1,)) + struct.pack("<d", value)


def _named(metrics: Mapping[str, float]) -> bytes:
    entries = (bytes((1 << 3 | 2, len(name))) + name.encode() + _double(2, value) for name, value in metrics.items())
    return b"".join(bytes((_NAMED_METRICS << 3 | 2, len(entry))) + entry for entry in entries)
