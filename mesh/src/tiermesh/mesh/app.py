"""Composition root of the control plane."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial

from envoy.service.discovery.v3 import ads_pb2, ads_pb2_grpc
from tiermesh.api.mesh.v1 import mesh_pb2, mesh_pb2_grpc
from tiermesh.mesh.ads import AdsServicer, Subscribers
from tiermesh.mesh.api_keys import ApiKeys, read_api_keys
from tiermesh.mesh.cache import SnapshotCache
from tiermesh.mesh.follow import follow
from tiermesh.mesh.publisher import Publisher
from tiermesh.mesh.servicer import MeshServicer
from tiermesh.shared.clock import SYSTEM_CLOCK, Clock
from tiermesh.shared.config import ConfigError, TiermeshConfig, keep_last_good
from tiermesh.shared.process import Process
from tiermesh.shared.rpc import Service, open_server, serve_until_signal
from tiermesh.shared.telemetry import get_logger

_log = get_logger(__name__)

# Streams of discovery never end by themselves; Envoys reconnect, so waiting for them gains nothing.
_DRAIN_S = 0.2
_CALL_DEADLINE_S = 10.0


@dataclass(frozen=True, slots=True)
class ControlPlane:
    """The parts of the control plane, connected."""

    publisher: Publisher
    services: tuple[Service, ...]


def wire(
    *,
    read_keys: Callable[[TiermeshConfig], ApiKeys],
    environ: Mapping[str, str],
    keep: Callable[[TiermeshConfig], None] = lambda _: None,
    clock: Clock = SYSTEM_CLOCK,
) -> ControlPlane:
    """Connects the parts; opens nothing."""
    snapshots, subscribers = SnapshotCache(), Subscribers()
    publisher = Publisher(snapshots, read_keys=read_keys, environ=environ, clock=clock, keep=keep)
    ads, mesh = AdsServicer(snapshots, subscribers), MeshServicer(publisher, subscribers)
    return ControlPlane(
        publisher,
        (
            Service(
                ads_pb2.DESCRIPTOR.services_by_name["AggregatedDiscoveryService"].full_name,
                partial(ads_pb2_grpc.add_AggregatedDiscoveryServiceServicer_to_server, ads),
            ),
            Service(
                mesh_pb2.DESCRIPTOR.services_by_name["MeshService"].full_name,
                partial(mesh_pb2_grpc.add_MeshServiceServicer_to_server, mesh),
            ),
        ),
    )


async def run(process: Process) -> None:
    """Serves until a signal.

    Raises:
        ConfigError: the first configuration cannot be published.
        OSError: the port is taken.
    """
    config, environ = process.config, process.environ
    plane = wire(
        read_keys=lambda c: read_api_keys(c, process.state, environ),
        environ=environ,
        keep=lambda c: keep_last_good(c, process.state),
    )
    if not plane.publisher.offer(config):
        raise ConfigError(plane.publisher.rejection)
    with process.open_meter("tiermesh-mesh"):
        await _serve(process, plane)


async def _serve(process: Process, plane: ControlPlane) -> None:
    async with (
        process.open_tracing("tiermesh-mesh") as tracing,
        open_server(
            plane.services,
            address=process.address,
            tls=process.server_tls(),
            tracing=tracing,
            default_deadline_s=_CALL_DEADLINE_S,
            drain_s=_DRAIN_S,
        ) as server,
    ):
        following = asyncio.create_task(
            follow(plane.publisher, process.config_path, state=process.state, environ=process.environ)
        )
        await server.set_serving(True)
        _log.info("serving", port=server.port)
        try:
            await serve_until_signal(server, drain_s=_DRAIN_S, tasks=(following,))
        finally:
            following.cancel()
