"""The chart's own commands, run on this machine.

Names under `.localhost` lead to this machine, so with that as the cluster's domain the very names that the chart
writes work here too.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from harness.helm import Manifest, render
from harness.ports import free_port_base

KEY = "a-key-for-tests"


def pod_ports() -> dict[str, int]:
    """Returns free ports for everything that pods listen on."""
    base = free_port_base()
    return {name: base + n for n, name in enumerate(("ingress", "admin", "xds", "mesh", "service", "probe"))}


class Pods:
    """The pods of a release, as processes in a folder that stands for their file systems.

    Args:
        folder: The folder.
        ports: Where the pods listen.
        values: Further values of the chart.
    """

    def __init__(self, folder: Path, ports: Mapping[str, int], values: Manifest | None = None) -> None:
        self.ports = ports
        self.release = render(
            {
                "clusterDomain": "localhost",
                "ports": dict(ports),
                "config": {"drain_s": 0},
                "removalSeconds": 0,
                **(values or {}),
            }
        )
        self.folder = folder
        for name in ("etc/tiermesh", "etc/tiermesh-keys", "etc/envoy", "var/lib/tiermesh"):
            (folder / name).mkdir(parents=True)
        (folder / "etc/tiermesh-keys/default").write_text(KEY + "\n", encoding="utf-8")
        for name, text in self.release.config_files().items():
            (folder / "etc/tiermesh" / name).write_text(self._here(text), encoding="utf-8")

    def _here(self, text: str) -> str:
        for root in ("/etc/tiermesh-", "/etc/tiermesh/", "/etc/envoy/", "/var/lib/tiermesh"):
            text = text.replace(root, f"{self.folder}{root}")
        return text

    def _environ(self) -> dict[str, str]:
        path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
        return {"PATH": path, "HOME": str(self.folder), "POD_NAME": "pod-0"}

    def command(self, container, *more: str) -> list[str]:
        return [self._here(word) for word in (*container.get("command", ()), *container.get("args", ()), *more)]

    def run(self, command: list[str]) -> subprocess.CompletedProcess[str]:
        """Runs a command in the pod to its end, as the kubelet runs probes and hooks."""
        return subprocess.run(
            [self._here(word) for word in command],
            env=self._environ(),
            capture_output=True,
            text=True,
            check=False,
            timeout=60,
        )

    @contextmanager
    def running(self, container) -> Iterator[subprocess.Popen[bytes]]:
        log = self.folder / f"{container['name']}.log"
        with log.open("wb") as output:
            process = subprocess.Popen(self.command(container), env=self._environ(), stdout=output, stderr=output)
            try:
                yield process
                assert process.poll() is None, log.read_text(encoding="utf-8")
            finally:
                process.terminate()
                process.wait(60)
