"""Stops the mesh: drain, then every process in the order in which none still needs another."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from tiermesh.mesh.local.drain import drain_ingress
from tiermesh.mesh.local.layout import StateLayout
from tiermesh.mesh.local.orphans import end_all, processes_of
from tiermesh.mesh.local.processes import Stage
from tiermesh.mesh.local.supervision import Supervisor, wait_gone
from tiermesh.shared.config import TiermeshConfig
from tiermesh.shared.local_mesh import NOTE

_FIXED_STAGES = {
    "follower": Stage.FOLLOWER,
    "envoy": Stage.ENVOY,
    "control": Stage.CONTROL,
    "redis": Stage.STORE,
    "traces": Stage.STORE,
}


@dataclass(frozen=True, slots=True)
class DownResult:
    """How stopping went."""

    was_running: bool
    cut: int
    """Requests that were in flight at the end of the drain."""
    killed: tuple[str, ...]
    """Processes that had to be ended by force, as `name (pid)`."""


def stage_of(name: str) -> Stage:
    """Returns when a process is stopped, by its name alone: the configuration may have changed since."""
    return _FIXED_STAGES.get(name, Stage.ROUTER if name.startswith("router-") else Stage.SERVICE)


async def bring_down(
    layout: StateLayout, config: TiermeshConfig | None, *, drain: bool, say: Callable[[str], None]
) -> DownResult:
    """Stops everything that runs for a state folder, whatever state it is in.

    Args:
        layout: The state folder.
        config: Where Envoy's admin page is and how long a drain may take; None to stop at once.
        drain: Whether requests in flight are waited for.
        say: Is told what happens.
    """
    supervisor = Supervisor(layout)
    pid = await asyncio.to_thread(supervisor.pid)
    cut = 0
    if pid is not None:
        if drain and config is not None:
            admin = f"http://127.0.0.1:{config.network.admin_port}"
            cut = await drain_ingress(admin, seconds=config.drain_s, say=say)
        await _stop_in_order(supervisor, say)
        await asyncio.to_thread(supervisor.shutdown)
        await asyncio.to_thread(wait_gone, pid, 30)
    left = await asyncio.to_thread(processes_of, layout.root)
    killed = tuple(f"{_name(process)} ({process.pid})" for process in left)
    if left:
        say(f"ending what was left over: {', '.join(killed)}")
        await asyncio.to_thread(end_all, left)
    for leftover in (layout.root / NOTE, layout.supervisor_socket, layout.supervisor_pid):
        leftover.unlink(missing_ok=True)
    return DownResult(pid is not None, cut, killed)


async def _stop_in_order(supervisor: Supervisor, say: Callable[[str], None]) -> None:
    processes = await asyncio.to_thread(supervisor.processes)
    for stage in Stage:
        names = [process.name for process in processes if stage_of(process.name) is stage]
        if names:
            say(f"stopping {', '.join(names)}")
            await asyncio.gather(*(asyncio.to_thread(supervisor.stop, name) for name in names))


def _name(process: object) -> str:
    words = process.cmdline() if hasattr(process, "cmdline") else []
    return Path(words[0]).name if words else "process"
