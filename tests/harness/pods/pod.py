"""One pod: its volumes, its containers as processes, its probes."""

from __future__ import annotations

import os
import shlex
import signal
import socket
import subprocess
import time
from pathlib import Path
from typing import Any

import grpc
import httpx
from grpc_health.v1 import health_pb2, health_pb2_grpc
from harness.helm import NAMESPACE
from harness.pods.images import Images, make_place
from harness.pods.network import run

Manifest = dict[str, Any]
_SLACK_S = 30
"""Allowed beyond a probe's own timeout: it starts a whole container here, where a kubelet enters one."""


class Pod:
    """A pod of a workload, on an address of its own.

    Args:
        name: Of the pod.
        template: `spec.template` of the workload.
        network: Namespace and address.
        folder: An empty folder for volumes and logs.
        resolv_conf: What to find as `/etc/resolv.conf`.
        images: Where to take file systems from.
        files: Contents of ConfigMaps and Secrets by their name.
    """

    def __init__(
        self,
        name: str,
        template: Manifest,
        *,
        network: tuple[str, str],
        folder: Path,
        resolv_conf: Path,
        images: Images,
        files: dict[str, dict[str, str]],
    ) -> None:
        self.name = name
        self.labels: dict[str, str] = template["metadata"]["labels"]
        self.namespace, self.address = network
        self.is_ready = False
        self.spec: Manifest = template["spec"]
        """`spec` of the pod."""
        self._folder = folder
        self._resolv_conf = resolv_conf
        self._images = images
        self._volumes = {volume["name"]: self._make_volume(volume, files) for volume in self.spec.get("volumes", ())}
        self._running: dict[str, subprocess.Popen[bytes]] = {}
        self._is_going = False

    @property
    def _staying(self) -> list[Manifest]:
        sidecars = [c for c in self.spec.get("initContainers", ()) if c.get("restartPolicy") == "Always"]
        return [*sidecars, *self.spec["containers"]]

    def start(self) -> None:
        """Runs the containers in the order of a kubelet: those that end, sidecars, then the others.

        Raises:
            RuntimeError: one did not end well.
        """
        for container in self.spec.get("initContainers", ()):
            if container.get("restartPolicy") == "Always":
                self._run(container)
            elif status := self._run(container).wait(300):
                raise RuntimeError(f"{self.name}: {container['name']} ended with {status}: {self._log(container)}")
        for container in self.spec["containers"]:
            self._run(container)

    def run_to_end(self) -> tuple[int, str]:
        """Runs the one container of a pod that ends; returns its status and what it printed."""
        (container,) = self.spec["containers"]
        return self._run(container).wait(300), self._log(container)

    def replace(self) -> dict[str, int]:
        """Stops the pod as a kubelet does and starts another in its place; returns how each container ended.

        It leaves its Services first, then hooks run, then its containers are told to stop, then its sidecars, the first
        one last. Whoever is not gone within the grace period is killed.
        """
        self._is_going = True
        ends = time.monotonic() + self.spec["terminationGracePeriodSeconds"]
        ended = {}
        for container in [*self.spec["containers"], *reversed(self._staying[: -len(self.spec["containers"])])]:
            process = self._running[container["name"]]
            if hook := container.get("lifecycle", {}).get("preStop"):
                command = self._inside(container, hook["exec"]["command"])
                subprocess.run(command, capture_output=True, check=True, timeout=max(1.0, ends - time.monotonic()))
            os.kill(process.pid, signal.SIGTERM)
            try:
                ended[container["name"]] = process.wait(max(1.0, ends - time.monotonic()))
            except subprocess.TimeoutExpired:
                os.killpg(process.pid, signal.SIGKILL)
                ended[container["name"]] = process.wait(30)
        self.start()
        self._is_going = False
        return ended

    def probe(self) -> bool:
        """Asks the probes that say whether the pod is ready; starts again what has died."""
        if self._is_going:
            return False
        for container in self._staying:
            if (status := self._running[container["name"]].poll()) is not None:
                print(f"{self.name}: {container['name']} ended with {status} and is started again")
                self._run(container)
        probes = [(container, container.get("readinessProbe")) for container in self._staying]
        return all(probe is None or self._passes(container, probe) for container, probe in probes)

    @property
    def pids(self) -> dict[str, int]:
        """Process of each container that stays and runs; every container is one."""
        return {name: process.pid for name, process in self._running.items() if process.poll() is None}

    def kill(self, container: str) -> None:
        """Kills a container's process as a crash would."""
        os.killpg(self._running[container].pid, signal.SIGKILL)

    def stop(self) -> None:
        """Ends all containers."""
        for process in self._running.values():
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)
                process.wait(30)

    def _log(self, container: Manifest) -> str:
        return (self._folder / f"{container['name']}.log").read_text(encoding="utf-8")[-2000:]

    def _run(self, container: Manifest) -> subprocess.Popen[bytes]:
        command = self._inside(container, [*container.get("command", ()), *container.get("args", ())])
        with (self._folder / f"{container['name']}.log").open("ab") as log:
            process = subprocess.Popen(command, stdout=log, stderr=log, start_new_session=True)
        self._running[container["name"]] = process
        return process

    def _passes(self, container: Manifest, probe: Manifest) -> bool:
        timeout = probe.get("timeoutSeconds", 1)
        ports = {port["name"]: port["containerPort"] for port in container.get("ports", ())}

        def port_of(check: Manifest) -> int:
            return int(ports.get(check["port"], check["port"]))

        try:
            match probe:
                case {"exec": check}:
                    command = self._inside(container, check["command"])
                    return (
                        subprocess.run(command, capture_output=True, check=False, timeout=timeout + _SLACK_S).returncode
                        == 0
                    )
                case {"grpc": check}:
                    with grpc.insecure_channel(f"{self.address}:{port_of(check)}") as channel:
                        answer = health_pb2_grpc.HealthStub(channel).Check(
                            health_pb2.HealthCheckRequest(), timeout=timeout
                        )
                        return bool(answer.status == health_pb2.HealthCheckResponse.SERVING)
                case {"httpGet": check}:
                    return httpx.get(
                        f"http://{self.address}:{port_of(check)}{check['path']}", timeout=timeout
                    ).is_success
                case {"tcpSocket": check}:
                    socket.create_connection((self.address, port_of(check)), timeout).close()
                    return True
        except (OSError, grpc.RpcError, httpx.HTTPError, subprocess.TimeoutExpired):
            return False
        raise ValueError(f"{self.name}: no such probe is known here: {probe}")

    def _make_volume(self, volume: Manifest, files: dict[str, dict[str, str]]) -> Path:
        folder = self._folder / "volumes" / volume["name"]
        folder.mkdir(parents=True)
        match volume:
            case {"configMap": source}:
                found = files[source["name"]]
            case {"projected": projected}:
                found = {
                    item["path"]: files[source["secret"]["name"]][item["key"]]
                    for source in projected["sources"]
                    for item in source["secret"]["items"]
                }
            case _:
                found = {}
                # An emptyDir or a claim: the pod's group may write.
                folder.chmod(0o2770)
        for name, text in found.items():
            (folder / name).write_text(text, encoding="utf-8")
        run("chown", "-R", f"0:{self.spec['securityContext']['fsGroup']}", str(folder))
        return folder

    def _environ(self, container: Manifest) -> dict[str, str]:
        fields = {"metadata.name": self.name, "metadata.namespace": NAMESPACE, "spec.nodeName": "node-0"}
        found: dict[str, str] = {}
        for entry in container.get("env", ()):
            value = entry["value"] if "value" in entry else fields[entry["valueFrom"]["fieldRef"]["fieldPath"]]
            for name, known in found.items():
                value = value.replace(f"$({name})", known)
            found[entry["name"]] = value
        return found

    def _inside(self, container: Manifest, command: list[str]) -> list[str]:
        """Returns the command that runs another one in a container: its files, its user, no privileges."""
        image, root = self._images.open(container["image"]), self._folder / "roots" / container["name"]
        root.mkdir(parents=True, exist_ok=True)
        mounts = container.get("volumeMounts", ())
        for mount in mounts:
            make_place(image.root, mount["mountPath"])
        lines = [f"mount --bind {image.root} {root}"]
        if container["securityContext"]["readOnlyRootFilesystem"]:
            lines.append(f"mount -o remount,ro,bind {root}")
        for mount in mounts:
            place = f"{root}{mount['mountPath']}"
            # A volume may lie within another one.
            lines += [f"mkdir -p {place}", f"mount --bind {self._volumes[mount['name']]} {place}"]
            if mount.get("readOnly"):
                lines.append(f"mount -o remount,ro,bind {place}")
        lines += [f"mount -t proc proc {root}/proc", f"mount --rbind /dev {root}/dev"]
        lines.append(f"mount --bind {self._resolv_conf} {root}/etc/resolv.conf")
        user = self.spec["securityContext"]
        ids = [f"--reuid={user['runAsUser']}", f"--regid={user['runAsGroup']}", f"--groups={user['fsGroup']}"]
        rights = ["--no-new-privs", "--inh-caps=-all", "--bounding-set=-all"]
        environ = [*image.environ, *(f"{name}={value}" for name, value in self._environ(container).items())]
        inner = ["chroot", str(root), "setpriv", *ids, *rights, "env", "-i", *environ, *command]
        script = "\n".join((*lines, f"exec {shlex.join(inner)}"))
        entering = ["ip", "netns", "exec", self.namespace, "unshare", "--mount", "--propagation", "private"]
        return [*entering, "bash", "-ec", script]
