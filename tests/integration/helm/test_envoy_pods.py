"""The chart's own commands, run on this machine: the control plane, Envoy of each role, its probes and its drain.

Names under `.localhost` lead to this machine, so with that as the cluster's domain the very names that the chart
writes work here too.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx
import psutil
import pytest
from harness.eventually import eventually
from harness.helm import main_container, render
from harness.ports import free_port_base

pytestmark = pytest.mark.envoy

KEY = "a-key-for-tests"


class Pods:
    """The pods of a release, as processes in a folder that stands for their file systems."""

    def __init__(self, folder: Path) -> None:
        base = free_port_base()
        self.ports = {"ingress": base, "admin": base + 1, "xds": base + 2, "mesh": base + 3, "service": base + 4}
        self.release = render(
            {"clusterDomain": "localhost", "ports": self.ports, "config": {"drain_s": 0}, "removalSeconds": 0}
        )
        self.folder = folder
        for name in ("etc/tiermesh", "etc/tiermesh-keys", "etc/envoy", "var/lib/tiermesh"):
            (folder / name).mkdir(parents=True)
        (folder / "etc/tiermesh-keys/default").write_text(KEY + "\n", encoding="utf-8")
        for name, text in self.release.config_files().items():
            (folder / "etc/tiermesh" / name).write_text(self._here(text), encoding="utf-8")

    def _here(self, text: str) -> str:
        for root in ("/etc/tiermesh-keys", "/etc/tiermesh/", "/etc/envoy/", "/var/lib/tiermesh"):
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


@pytest.fixture
def pods(tmp_path) -> Pods:
    return Pods(tmp_path)


@contextmanager
def _envoy(pods: Pods, component: str):
    pod = pods.release.workload(component)["spec"]["template"]["spec"]
    done = pods.run(pod["initContainers"][0]["command"])
    assert done.returncode == 0, done.stderr
    envoy = (pod["initContainers"][1:] or pod["containers"])[0]
    with pods.running(main_container(pods.release.workload("control-plane"))), pods.running(envoy) as process:
        yield envoy, process


async def test_the_ingress_opens_is_probed_and_drains(pods):
    with _envoy(pods, "ingress") as (envoy, process):
        url = f"http://127.0.0.1:{pods.ports['ingress']}"
        probe = envoy["readinessProbe"]["httpGet"]
        async with httpx.AsyncClient(base_url=url, timeout=60) as client:

            async def answers() -> bool:
                try:
                    return (await client.get(probe["path"])).status_code == 200
                except httpx.TransportError:
                    return False

            await eventually(answers)
            assert pods.run(envoy["livenessProbe"]["exec"]["command"]).returncode == 0
            # Authentication is on: the key of the mounted Secret opens, another does not.
            assert (await client.get("/v1/models", headers={"Authorization": "Bearer wrong"})).status_code == 401
            opened = await client.get("/v1/models", headers={"Authorization": f"Bearer {KEY}"})
            assert opened.status_code == 503, "there is no router behind it here"

            assert "connection" not in (await client.get(probe["path"])).headers
            assert pods.run(envoy["lifecycle"]["preStop"]["exec"]["command"]).returncode == 0
            assert process.poll() is None
            # Callers are told to go elsewhere, on connections that still work.
            assert (await client.get(probe["path"])).headers["connection"] == "close"


async def test_a_sidecar_opens_on_loopback_and_is_probed(pods):
    with _envoy(pods, "classifier") as (envoy, process):
        ready, alive = (envoy[name]["exec"]["command"] for name in ("readinessProbe", "livenessProbe"))

        async def is_ready() -> bool:
            return pods.run(ready).returncode == 0

        await eventually(is_ready)
        assert pods.run(alive).returncode == 0
        listening = {c.laddr for c in psutil.Process(process.pid).net_connections("tcp") if c.status == "LISTEN"}
        assert {(a.ip, a.port) for a in listening} == {("127.0.0.1", pods.ports[name]) for name in ("mesh", "admin")}


def test_probes_fail_where_nothing_listens(pods):
    pod = pods.release.workload("classifier")["spec"]["template"]["spec"]
    for name in ("readinessProbe", "livenessProbe"):
        assert pods.run(pod["initContainers"][1][name]["exec"]["command"]).returncode != 0
