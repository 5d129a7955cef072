"""A mesh whose hops are mutual TLS: control plane and stub services in this process, one Envoy with both doors."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

from harness.certificates import Authority, SecretVolume
from harness.control_plane import RunningControlPlane, running_control_plane
from harness.envoy import RunningEnvoy, mesh_config, running_envoy
from harness.stub_services import RunningStub, running_stub
from tiermesh.shared.clock import SYSTEM_CLOCK
from tiermesh.shared.config import TiermeshConfig
from tiermesh.shared.endpoints import CONTROL_PLANE, ROUTER, Endpoint, engine_cluster
from tiermesh.shared.rpc import ServerTls
from tiermesh.shared.tls import INGRESS, Pem, callers_of, identity_of, members_of
from tiermesh.shared.tls.files import CertificateFiles, FollowedFiles

ENGINE = engine_cluster("l1")
SERVICES = (ROUTER, "classifier", "cache", ENGINE)
"""The one service behind Envoy stands for all of them."""
PUBLIC_NAME = "localhost"


@dataclass
class TlsMesh:
    """What a test talks to, and the volumes that its certificates come from."""

    config: TiermeshConfig
    envoy: RunningEnvoy
    control: RunningControlPlane
    stub: RunningStub
    volumes: Volumes


class Volumes:
    """The Secrets of the Envoy, of the service behind it, of the control plane, and of the public name."""

    def __init__(
        self, folder: Path, authority: Authority, *, envoy: Pem | None = None, service: Pem | None = None
    ) -> None:
        self._folder = folder
        self.envoy = SecretVolume(folder / "envoy", envoy or names_pem(authority, INGRESS, ROUTER))
        self.service = SecretVolume(folder / "service", service or names_pem(authority, *SERVICES))
        self.control = SecretVolume(folder / "control", names_pem(authority, CONTROL_PLANE))
        self.public = SecretVolume(folder / "public", authority.pem_for(PUBLIC_NAME))

    def config(self) -> TiermeshConfig:
        """Returns a configuration with every switch on, whose services are all behind one port of this machine."""
        public = {key: self.public.settings[key] for key in ("certificate", "private_key")}
        config = mesh_config(
            self._folder,
            discovery={"mode": "dns", "dns_suffix": ".localhost"},
            tls={
                "mesh": True,
                "control_plane": True,
                **self.envoy.settings,
                "envoy_folder": str(self._folder),
                "ingress": {"enabled": True, **public},
            },
        )
        discovery = config.discovery.model_copy(update={"service_port": config.network.service_port_base})
        return config.model_copy(update={"discovery": discovery})


def dns_name(service: str) -> str:
    """Returns the name of a service in its certificate."""
    return f"tiermesh-{service}.localhost"


def names_pem(authority: Authority, *services: str, trusted: bytes | None = None) -> Pem:
    """Issues a certificate that is good for several services."""
    return authority.pem_for(*map(dns_name, services), trusted=trusted)


def server_tls(
    config: TiermeshConfig, service: str, volume: SecretVolume, *, probe_address: str | None = None
) -> ServerTls:
    """Returns what a service's process would serve with, its certificate in a volume."""
    paths = {key: Path(path) for key, path in volume.settings.items()}
    files = FollowedFiles(CertificateFiles("tls", **paths), SYSTEM_CLOCK)
    return ServerTls(lambda: files.newest()[0], callers_of(config, service), members_of(config), probe_address)


@asynccontextmanager
async def running_tls_mesh(
    folder: Path, authority: Authority, *, envoy: Pem | None = None, service: Pem | None = None, wait: bool = True
) -> AsyncIterator[TlsMesh]:
    """Runs the mesh until the block is left.

    Args:
        folder: For certificates and logs.
        authority: Issues whatever certificate is not given.
        envoy: Envoy's own certificate.
        service: That of the service, which takes itself for an engine and a router in one.
        wait: Whether to wait until Envoy finds the service well.
    """
    volumes = Volumes(folder, authority, envoy=envoy, service=service)
    config = volumes.config()
    # One process stands for two services, so both services' callers may call it.
    tls = server_tls(config, ENGINE, volumes.service)
    both = ServerTls(tls.newest, {**tls.callers, identity_of(config, INGRESS): INGRESS}, tls.members)
    async with (
        running_stub(Endpoint("127.0.0.1", config.discovery.service_port), tls=both) as stub,
        running_control_plane(config, tls=server_tls(config, CONTROL_PLANE, volumes.control)) as control,
        running_envoy(config, folder) as running,
    ):
        if wait:
            await running.healthy(ROUTER)
            await running.healthy(ENGINE)
        yield TlsMesh(config, running, control, stub, volumes)
