"""The control plane in this process, with configurations offered by hand."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass

from harness.envoy import KEY, OTHER_KEY
from tiermesh.api.mesh.v1 import mesh_pb2, mesh_pb2_grpc
from tiermesh.mesh.api_keys import ApiKeys
from tiermesh.mesh.app import ControlPlane, wire
from tiermesh.shared.config import TiermeshConfig
from tiermesh.shared.rpc import ServerTls, open_channel, open_server
from tiermesh.shared.testing import recorded_tracing

KEYS = ApiKeys({"acme": (KEY,), "globex": (OTHER_KEY,)})


@dataclass
class RunningControlPlane:
    """A control plane that serves."""

    plane: ControlPlane
    target: str

    def publish(self, config: TiermeshConfig) -> None:
        """Publishes a configuration, which must be sound."""
        assert self.plane.publisher.offer(config), self.plane.publisher.rejection

    async def status(self) -> mesh_pb2.GetStatusResponse:
        """Asks for the status, as operators do."""
        async with open_channel(self.target) as channel:
            return await mesh_pb2_grpc.MeshServiceStub(channel).GetStatus(mesh_pb2.GetStatusRequest(), timeout=60)


@asynccontextmanager
async def running_control_plane(
    config: TiermeshConfig,
    *,
    keys: ApiKeys = KEYS,
    environ: dict[str, str] | None = None,
    tls: ServerTls | None = None,
) -> AsyncIterator[RunningControlPlane]:
    """Serves a configuration on its xDS port until the block is left."""
    plane = wire(read_keys=lambda _: keys, environ=environ or {})
    target = f"127.0.0.1:{config.network.xds_port}"
    running = RunningControlPlane(plane, target)
    running.publish(config)
    with recorded_tracing() as tracing:
        async with open_server(
            plane.services, address=target, tracing=tracing, default_deadline_s=10, tls=tls
        ) as server:
            await server.set_serving(True)
            yield running
