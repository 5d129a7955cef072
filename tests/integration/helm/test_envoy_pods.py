"""The chart's own commands, run on this machine: the control plane, Envoy of each role, its probes and its drain."""

from __future__ import annotations

from contextlib import contextmanager

import httpx
import psutil
import pytest
from harness.eventually import eventually
from harness.helm import main_container
from harness.helm_pods import KEY, Pods, pod_ports

pytestmark = pytest.mark.envoy


@pytest.fixture
def pods(tmp_path) -> Pods:
    return Pods(tmp_path, pod_ports())


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
