"""Which ports the mesh needs, which of them are taken, and by whom."""

from __future__ import annotations

import errno
import socket
from collections.abc import Callable, Iterable
from dataclasses import dataclass

import psutil
from tiermesh.mesh.local.errors import LocalError
from tiermesh.mesh.local.orphans import owner_of
from tiermesh.mesh.local.processes import ProcessSpec
from tiermesh.shared.config import TiermeshConfig

_PREFIX = "TIERMESH__NETWORK__"
_PLACES = {"redis": "redis_port", "traces": "traces_port", "control": "xds_port", "envoy": "ingress_port"}


_IN_ORDER = ("ingress_port", "admin_port", "xds_port", "mesh_port", "redis_port", "traces_port")
_SERVICES_AFTER = 20
"""Ports between the first one and those of the services."""


def overrides_from(first_port: int) -> dict[str, str]:
    """Returns overrides of the configuration that put a whole mesh on ports of its own, the ingress on `first_port`."""
    ports = {key: first_port + place for place, key in enumerate(_IN_ORDER)}
    ports["service_port_base"] = first_port + _SERVICES_AFTER
    return {f"{_PREFIX}{key.upper()}": str(port) for key, port in ports.items()}


@dataclass(frozen=True, slots=True)
class PortUse:
    """A port that the mesh needs."""

    host: str
    port: int
    user: str
    """Who will listen there."""
    key: str
    """Key of the configuration that sets it."""

    @property
    def override(self) -> str:
        """Environment variable that overrides the key."""
        return f"{_PREFIX}{self.key.removeprefix('network.').upper()}"


@dataclass(frozen=True, slots=True)
class Conflict:
    """A port that cannot be used."""

    use: PortUse
    why: str

    def __str__(self) -> str:
        return f"port {self.use.port} ({self.use.user}) {self.why}; it is set by {self.use.key}, override {self.use.override}=PORT"


def ports_of(config: TiermeshConfig, specs: Iterable[ProcessSpec]) -> tuple[PortUse, ...]:
    """Returns every port that the processes will listen on."""
    network = config.network
    uses = [
        PortUse("127.0.0.1", network.admin_port, "Envoy's admin page", "network.admin_port"),
        PortUse(network.bind, network.mesh_port, "Envoy's mesh listener", "network.mesh_port"),
    ]
    uses.extend(
        PortUse(spec.host, spec.port, spec.name, f"network.{_PLACES.get(spec.name, 'service_port_base')}")
        for spec in specs
        if spec.port
    )
    return tuple(sorted(uses, key=lambda use: use.port))


def find_conflicts(uses: Iterable[PortUse], why_unusable: Callable[[str, int], str | None]) -> tuple[Conflict, ...]:
    """Returns the ports that are wanted twice, or that `why_unusable` gives a reason for."""
    found: list[Conflict] = []
    seen: dict[int, PortUse] = {}
    for use in uses:
        if use.port > 65535:
            found.append(Conflict(use, "is beyond 65535"))
        elif use.port in seen:
            found.append(Conflict(use, f"is also wanted for {seen[use.port].user} ({seen[use.port].key})"))
        elif why := why_unusable(use.host, use.port):
            found.append(Conflict(use, why))
        seen.setdefault(use.port, use)
    return tuple(found)


def why_unusable(host: str, port: int) -> str | None:
    """Returns why nobody can listen there now, or None when one can."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    with socket.socket(family) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((host, port))
            probe.listen(1)
        except OSError as error:
            if error.errno == errno.EADDRINUSE:
                return f"is taken by {holder_of(port)}"
            if error.errno == errno.EACCES:
                return "needs root"
            return f"cannot be listened on at {host}: {error.strerror}"
    return None


def holder_of(port: int) -> str:
    """Returns who listens on a port, as well as this user can see."""
    try:
        listening = [c for c in psutil.net_connections("tcp") if c.status == psutil.CONN_LISTEN]
        pid = next((c.pid for c in listening if c.laddr and c.laddr.port == port and c.pid), None)
        if pid is None:
            return "a process of another user"
        process = psutil.Process(pid)
        state = owner_of(process)
        name = f"{process.name()} (pid {pid})"
    except psutil.Error:
        return "a process that cannot be named"
    if state is None:
        return name
    return f"{name} of the mesh in {state}"


def check_ports(config: TiermeshConfig, specs: Iterable[ProcessSpec]) -> None:
    """Makes sure that every port can be used, before anything is started.

    Raises:
        LocalError: some cannot; each is named.
    """
    conflicts = find_conflicts(ports_of(config, specs), why_unusable)
    if not conflicts:
        return
    lines = "\n".join(f"  {conflict}" for conflict in conflicts)
    raise LocalError(
        f"{len(conflicts)} port(s) cannot be used, so nothing was started:\n{lines}",
        "stop what holds them (another mesh: `TIERMESH_STATE=FOLDER tiermesh down`), or choose other ports: all at "
        'once by `tiermesh up --first-port 20000` (`make up ARGS="--first-port 20000"`), one in the configuration or by '
        "the override.",
    )
