"""A whole data plane: control plane and stub services in this process, a real Envoy beside it."""

from contextlib import asynccontextmanager
from dataclasses import dataclass

import pytest
from harness.control_plane import RunningControlPlane, running_control_plane
from harness.envoy import RunningEnvoy, mesh_config, running_envoy
from harness.stub_services import RunningStub, running_stub
from tiermesh.shared.endpoints import engine_cluster, replica_endpoint


@dataclass
class DataPlane:
    """What a test talks to."""

    envoy: RunningEnvoy
    control: RunningControlPlane
    router: RunningStub
    engine: RunningStub

    @property
    def config(self):
        return self.envoy.config


@pytest.fixture
def data_plane(tmp_path):
    """Returns an opener of data planes; its keywords are sections of the configuration."""

    @asynccontextmanager
    async def opened(*, protocol="delta", environ=None, **sections):
        config = mesh_config(tmp_path, **sections)
        router, engine = replica_endpoint(config, "router", 0), replica_endpoint(config, engine_cluster("l1"), 0)
        async with (
            running_stub(router) as router_stub,
            running_stub(engine) as engine_stub,
            running_control_plane(config, environ=environ) as control,
            running_envoy(config, tmp_path, protocol=protocol) as envoy,
        ):
            await envoy.healthy("router")
            await envoy.healthy("engine-l1")
            yield DataPlane(envoy, control, router_stub, engine_stub)

    return opened
