"""All pods of a release, and the watch over them."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

from harness.helm import NAMESPACE, Manifest, Release
from harness.pods.images import Images
from harness.pods.network import Network
from harness.pods.pod import Pod

KEY = "a-key-for-the-pods-000000"
_PAUSE_S = 2


class PodCluster:
    """The pods of a release, kept running, with Services that lead to those that are ready."""

    def __init__(self, release: Release, network: Network, pods: list[Pod], make_pod: Callable[..., Pod]) -> None:
        self.release = release
        self._network = network
        self._make_pod = make_pod
        self.pods = pods

    def of(self, component: str) -> list[Pod]:
        """Returns the pods of a component."""
        return [pod for pod in self.pods if pod.labels["app.kubernetes.io/component"] == component]

    async def run_to_end(self, manifest: Manifest) -> tuple[int, str]:
        """Runs a pod that is no workload's and ends by itself; returns its status and what it printed."""
        pod = await asyncio.to_thread(self._make_pod, manifest["metadata"]["name"], manifest)
        return await asyncio.to_thread(pod.run_to_end)

    async def run(self) -> None:
        """Starts all pods and watches them until cancelled."""
        await asyncio.gather(*(self._keep(pod) for pod in self.pods))

    async def _keep(self, pod: Pod) -> None:
        await asyncio.to_thread(pod.start)
        while True:
            ready = await asyncio.to_thread(pod.probe)
            if ready != pod.is_ready:
                pod.is_ready = ready
                print(f"{pod.name} ({pod.address}) is {'ready' if ready else 'not ready'}", flush=True)
                self._publish()
            await asyncio.sleep(_PAUSE_S)

    def _publish(self) -> None:
        names = {}
        for service in self.release.all("Service"):
            wanted = service["spec"]["selector"].items()
            names[service["metadata"]["name"]] = [
                pod.address for pod in self.pods if pod.is_ready and wanted <= pod.labels.items()
            ]
        self._network.publish(names)


@asynccontextmanager
async def running_pods(release: Release, folder: Path) -> AsyncIterator[PodCluster]:
    """Runs a release; returns when every pod is ready, within five minutes.

    Raises:
        RuntimeError: an image is missing, or a container did not start.
        TimeoutError: not every pod became ready; its logs are in `folder`.
    """
    network, images = Network(folder, NAMESPACE), Images()
    files = {item["metadata"]["name"]: item["data"] for item in release.all("ConfigMap")}
    files["tiermesh-keys"] = {"default": f"{KEY}\n"}
    pods: list[Pod] = []

    def make_pod(name: str, template: Manifest) -> Pod:
        (folder / name).mkdir()
        for container in template["spec"]["containers"]:
            images.open(container["image"])
        pods.append(
            Pod(
                name,
                template,
                network=network.add(),
                folder=folder / name,
                resolv_conf=network.resolv_conf,
                images=images,
                files=files,
            )
        )
        return pods[-1]

    with network.open():
        try:
            for workload in release.workloads:
                for number in range(workload["spec"].get("replicas", 1)):
                    make_pod(f"{workload['metadata']['name']}-{number}", workload["spec"]["template"])
            cluster = PodCluster(release, network, list(pods), make_pod)
            watching = asyncio.create_task(cluster.run())
            try:
                async with asyncio.timeout(300):
                    while not all(pod.is_ready for pod in pods):
                        if watching.done():
                            watching.result()
                        await asyncio.sleep(0.2)
                yield cluster
            finally:
                watching.cancel()
                await asyncio.wait({watching})
        finally:
            for pod in pods:
                pod.stop()
            images.close()
