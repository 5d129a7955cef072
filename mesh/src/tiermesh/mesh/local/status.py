"""What runs now: one line per process, and what the control plane serves."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import grpc
import psutil
from tiermesh.api.mesh.v1 import mesh_pb2, mesh_pb2_grpc
from tiermesh.mesh.local.health import Health, open_health_checker
from tiermesh.mesh.local.layout import StateLayout
from tiermesh.mesh.local.processes import ProcessSpec
from tiermesh.mesh.local.supervision import ProcessState, Supervisor
from tiermesh.shared.config import TiermeshConfig

_UNRECORDED = (("traceparent", f"00-{'1' * 32}-{'1' * 16}-00"),)
"""Looking at the mesh is not work of the mesh: the caller decides against a trace of it."""


@dataclass(frozen=True, slots=True)
class ProcessStatus:
    """One line."""

    name: str
    state: str
    """The supervisor's word; `MISSING` where it knows of no such process."""
    health: str
    """`SERVING`, `warming up`, `down`, or `unplanned` for a process that the configuration does not ask for."""
    pid: int
    port: int
    memory_mb: float
    """Resident memory of the process and all below it."""
    uptime_s: float

    @property
    def is_well(self) -> bool:
        """Whether it runs and serves."""
        return self.state == "RUNNING" and self.health == "SERVING"


@dataclass(frozen=True, slots=True)
class ControlStatus:
    """What the control plane says of itself."""

    config_version: str
    rejection: str
    subscribers: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class MeshStatus:
    """Everything that `tiermesh status` shows."""

    processes: tuple[ProcessStatus, ...]
    control: ControlStatus | None
    """None where the control plane does not answer."""

    @property
    def is_well(self) -> bool:
        """Whether every process serves and the newest configuration was accepted."""
        return (
            all(process.is_well for process in self.processes)
            and self.control is not None
            and not self.control.rejection
        )

    def as_dict(self) -> dict[str, Any]:
        """Returns the status as plain data."""
        return {
            "well": self.is_well,
            "processes": [
                {name: getattr(process, name) for name in ProcessStatus.__slots__} for process in self.processes
            ],
            "control": None
            if self.control is None
            else {
                "config_version": self.control.config_version,
                "rejection": self.control.rejection,
                "subscribers": list(self.control.subscribers),
            },
        }


async def read_status(config: TiermeshConfig, specs: Sequence[ProcessSpec], layout: StateLayout) -> MeshStatus:
    """Asks the supervisor, every process and the control plane.

    Raises:
        LocalError: the supervisor is gone.
    """
    states = {state.name: state for state in await asyncio.to_thread(Supervisor(layout).processes)}
    async with open_health_checker(config) as checker:
        up = {name for name, state in states.items() if state.is_up}
        health = await checker.check_all(specs, up)
    return MeshStatus(join(specs, states, health), await read_control(config))


def join(
    specs: Sequence[ProcessSpec], states: dict[str, ProcessState], health: dict[str, Health]
) -> tuple[ProcessStatus, ...]:
    """Puts together what is wanted, what runs and how it is."""
    words = {"serving": "SERVING", "warming": "warming up", "down": "down"}
    lines = []
    for spec in specs:
        state = states.get(spec.name)
        lines.append(_line(spec.name, state, words[health[spec.name]], spec.port))
    planned = {spec.name for spec in specs}
    lines.extend(_line(name, state, "unplanned", 0) for name, state in states.items() if name not in planned)
    return tuple(lines)


def _line(name: str, state: ProcessState | None, health: str, port: int) -> ProcessStatus:
    if state is None:
        return ProcessStatus(name, "MISSING", "down", 0, port, 0.0, 0.0)
    return ProcessStatus(name, state.state, health, state.pid, port, memory_mb(state.pid), state.uptime_s)


def memory_mb(pid: int) -> float:
    """Returns the resident memory of a process and all below it; 0 where there is none."""
    if not pid:
        return 0.0
    try:
        root = psutil.Process(pid)
        family = [root, *root.children(recursive=True)]
    except psutil.Error:
        return 0.0
    total = 0
    for process in family:
        try:
            total += process.memory_info().rss
        except psutil.Error:
            continue
    return round(total / 1024 / 1024, 1)


async def read_control(config: TiermeshConfig) -> ControlStatus | None:
    """Asks the control plane what it serves; None where it does not answer."""
    host = "127.0.0.1" if config.network.bind in {"0.0.0.0", "::"} else config.network.bind
    target = f"{host}:{config.network.xds_port}"
    async with grpc.aio.insecure_channel(target, options=[("grpc.enable_http_proxy", 0)]) as channel:
        try:
            answer = await mesh_pb2_grpc.MeshServiceStub(channel).GetStatus(
                mesh_pb2.GetStatusRequest(), timeout=2, metadata=_UNRECORDED
            )
        except grpc.aio.AioRpcError:
            return None
    return ControlStatus(
        answer.config_version,
        answer.rejection,
        tuple(
            f"{each.node_id} ({each.protocol}){': ' + each.last_error if each.last_error else ''}"
            for each in answer.subscribers
        ),
    )


def log_names(layout: StateLayout) -> list[str]:
    """Returns the processes that have a log."""
    return sorted(path.stem for path in Path(layout.logs).glob("*.log"))
