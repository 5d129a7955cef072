"""The chart's own commands with TLS on every way: from a caller over the ingress to a router, all of them real processes."""

from __future__ import annotations

import grpc
import httpx
import psutil
import pytest
from grpc_health.v1 import health_pb2, health_pb2_grpc
from harness.certificates import Authority, SecretVolume
from harness.eventually import eventually
from harness.helm import NAMESPACE, main_container
from harness.helm_pods import KEY, Pods, pod_ports

pytestmark = pytest.mark.envoy

VALUES = {
    "tls": {"mesh": True, "controlPlane": True},
    "ingress": {"tls": {"enabled": True, "secret": "public"}},
    # TLS ends in the services themselves: it needs no sidecar beside each of them.
    "envoy": {"sidecar": {"everywhere": False}},
}


@pytest.fixture(scope="module")
def authority() -> Authority:
    return Authority()


@pytest.fixture
def pod_of(tmp_path, authority):
    """Returns a maker of pods that each have a file system, a certificate, and on one machine a probe port of their own."""
    ports = pod_ports()

    def make(component: str, *, certificate_of: str | None = None) -> Pods:
        ports["probe"] += 1
        pods = Pods(tmp_path / component, ports.copy(), VALUES)
        name = f"tiermesh-{certificate_of or component}.{NAMESPACE}.svc.localhost"
        SecretVolume(pods.folder / "etc/tiermesh-tls", authority.pem_for(name))
        SecretVolume(pods.folder / "etc/tiermesh-ingress-tls", authority.pem_for("localhost"))
        return pods

    return make


async def is_serving(port: int) -> bool:
    async with grpc.aio.insecure_channel(f"127.0.0.1:{port}") as channel:
        try:
            answer = await health_pb2_grpc.HealthStub(channel).Check(health_pb2.HealthCheckRequest(), timeout=60)
        except grpc.aio.AioRpcError:
            return False
        return answer.status == health_pb2.HealthCheckResponse.SERVING


async def test_a_request_comes_through_and_every_probe_does(pod_of, authority):
    control, router, ingress = pod_of("mesh"), pod_of("router"), pod_of("ingress")
    # What the control plane says of Envoy's folder is true in Envoy's pod, which has another one here.
    (control.folder / "etc/envoy").rmdir()
    (control.folder / "etc/envoy").symlink_to(ingress.folder / "etc/envoy")
    pod = ingress.release.workload("ingress")["spec"]["template"]["spec"]
    done = ingress.run(pod["initContainers"][0]["command"])
    assert done.returncode == 0, done.stderr
    envoy = pod["containers"][0]
    with (
        control.running(main_container(control.release.workload("control-plane"))),
        router.running(main_container(router.release.workload("router"))),
        ingress.running(envoy) as process,
    ):
        for pods, component in ((control, "control-plane"), (router, "router")):
            probe = main_container(pods.release.workload(component))["readinessProbe"]["grpc"]
            await eventually(lambda port=probe["port"]: is_serving(port))
        port = ingress.ports["ingress"]
        headers = {"Authorization": f"Bearer {KEY}"}
        trusting = authority.client_context()
        async with httpx.AsyncClient(
            base_url=f"https://localhost:{port}", verify=trusting, headers=headers, timeout=60
        ) as client:

            async def answered() -> bool:
                try:
                    return (await client.get("/v1/models")).status_code == 200
                except httpx.TransportError:
                    return False

            # Over the ingress's certificate, the router's, and the control plane's, that brought the key.
            await eventually(answered)
            check = envoy["readinessProbe"]["httpGet"]
            assert check["scheme"] == "HTTPS"
            assert (await client.get(check["path"], headers={})).status_code == 200
        assert ingress.run(envoy["livenessProbe"]["exec"]["command"]).returncode == 0
        # Of its certificates and keys, Envoy was given the places alone.
        bootstrap = (ingress.folder / "etc/envoy/envoy.yaml").read_text()
        assert "PRIVATE KEY" not in bootstrap
        assert psutil.Process(process.pid).is_running()


def test_envoy_does_not_start_with_a_certificate_of_somebody_else(pod_of):
    pods = pod_of("router", certificate_of="cache")
    for workload, container in (("router", "envoy-bootstrap"), ("router", "router")):
        spec = pods.release.workload(workload)["spec"]["template"]["spec"]
        (found,) = [c for c in (*spec["initContainers"], *spec["containers"]) if c["name"] == container]
        done = pods.run([*found["command"], *found.get("args", ())])
        assert done.returncode in {1, 2}, done.stderr
        told = done.stderr + done.stdout
        assert "etc/tiermesh-tls/tls.crt is not for tiermesh-router." in told
        assert "(its names: tiermesh-cache." in told
