"""CPU that the processes of a mesh spend on a request, from the kernel's own accounts.

It depends less than latency on what else runs on the machine. Caches and cores are still shared:
compare two versions only where both were measured in turn.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from pathlib import Path

import psutil

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "tests"))

from harness.mesh import Mesh  # noqa: E402 -- the harness is not installed

CLIENT = "this benchmark"
"""Name of the process that makes the calls."""


def process_name(command: list[str]) -> str:
    """Returns what a process is called in docs/architecture.md, such as `router` or `engine-l1`, by its command line."""
    if "-m" in command[:-1]:
        module = command[command.index("-m") + 1]
        if module.startswith("tiermesh."):
            kind = module.removeprefix("tiermesh.").removeprefix("mesh.local.")
            if kind == "engine":
                return f"engine-{command[command.index('--tier') + 1]}"
            return "control plane" if kind == "mesh" else kind
    for known in ("redis-server", "supervisord", "envoy"):
        if any(Path(word).name.startswith(known) for word in command[:3]):
            return "redis" if known == "redis-server" else known
    return Path(command[0]).name


class ProcessCpu:
    """Reads the CPU seconds, user's and system's, of every process of a mesh and of this one.

    Args:
        mesh: A mesh that is up.
    """

    def __init__(self, mesh: Mesh) -> None:
        self._processes = {CLIENT: psutil.Process(os.getpid())}
        for process in mesh.processes():
            # Redis writes its title into its command line, as one word.
            command = [word for words in process.cmdline() for word in words.split()]
            self._processes[process_name(command)] = process

    def seconds(self) -> Mapping[str, float]:
        """Returns the CPU seconds that each process has used since it began."""
        found = {}
        for name, process in self._processes.items():
            times = process.cpu_times()
            found[name] = times.user + times.system
        return found


def per_request_ms(before: Mapping[str, float], after: Mapping[str, float], requests: int) -> dict[str, float]:
    """Returns CPU milliseconds a request by process, greatest first; processes that did nothing are left out."""
    spent = {name: (after[name] - before[name]) / requests * 1000 for name in after}
    return {name: round(ms, 3) for name, ms in sorted(spent.items(), key=lambda item: -item[1]) if ms >= 0.005}
