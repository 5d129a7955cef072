"""The mesh of real processes, as scenarios see it: signals are the faults."""

from __future__ import annotations

import asyncio
import signal
import socket
import time
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass

import grpc
import httpx
import psutil
from grpc_health.v1 import health_pb2, health_pb2_grpc
from harness.mesh import Mesh
from harness.scenario_load import PLANS_HTTP, PLANS_SDK, Ask, Plan, Questions, by_http, by_sdk
from harness.scenarios import DOOR, Fault, Timing
from tiermesh.client import AsyncClient
from tiermesh.shared.endpoints import cluster_endpoints

SETTINGS = {
    "router": {"replicas": 2},
    # Faults are what is looked at; texts are compared with those of the tier that policy chose.
    "escalation": {"enabled": False},
    "tiers": [
        {"name": "l1", "replicas": 2, "simulated_ttft_ms": 20, "simulated_tokens_per_second": 200},
        {"name": "l2", "simulated_ttft_ms": 60, "simulated_tokens_per_second": 100},
    ],
}
"""A mesh with two of what a kill must not interrupt, and answers of 0.15 to 0.4 s, so that faults hit some midway."""
_STOPPED_S, _RUNNING_S = 0.18, 0.02


@dataclass(frozen=True)
class _Target:
    """How a process is found, and where Envoy shows that it is back."""

    cluster: str = ""
    replica: int = 0
    word: str = ""
    """An argument of its command line, for processes that no cluster names."""


_TARGETS = {
    "engine-l0": _Target("engine-l0"),
    "engine-l1 (one of two)": _Target("engine-l1"),
    "engine-l2": _Target("engine-l2"),
    "router (one of two)": _Target("router"),
    "classifier": _Target("classifier"),
    "cache": _Target("cache"),
    "redis": _Target(word="redis-server"),
    "outcomes": _Target("outcomes"),
    "traces": _Target(word="tiermesh.traces"),
    "control plane": _Target(word="tiermesh.mesh"),
    DOOR: _Target(word="--disable-hot-restart"),
}
OTHER_ROUTER = "the other router"


class ProcessCluster:
    """A `Cluster` of processes.

    Args:
        mesh: Started with `SETTINGS`.
    """

    label = "processes"
    timing = Timing(
        deadline_s=1.5,
        recovered_deadline_s=1.5,
        warm_s=0.6,
        fault_s=2.5,
        right_again=18,
        # A process of Python starts in 1 to 5 s on two cores that others use too.
        recovery_limit_s=20.0,
        repeats=2,
    )
    targets = tuple(_TARGETS)

    def __init__(self, mesh: Mesh) -> None:
        self.mesh = mesh
        self._targets = {**_TARGETS, OTHER_ROUTER: _Target("router", 1)}
        self._killed: set[float] = set()
        """When those that were killed had been created: a number may be given to another process."""

    @asynccontextmanager
    async def callers(self, *, door_hit: bool) -> AsyncIterator[Sequence[tuple[Ask, Plan]]]:
        """Opens four callers with the SDK and two with plain HTTP."""
        headers = {"authorization": f"Bearer {self.mesh.key}"}
        async with (
            AsyncClient(self.mesh.target, api_key=self.mesh.key) as sdk,
            httpx.AsyncClient(base_url=self.mesh.url, headers=headers, timeout=30) as http,
        ):
            plain = by_http(http, door_may_be_silent=door_hit)
            yield [*((by_sdk(sdk), plan) for plan in PLANS_SDK), *((plain, plan) for plan in PLANS_HTTP)]

    async def questions(self) -> Questions:
        """Returns the maker of questions."""
        async with AsyncClient(self.mesh.target, api_key=self.mesh.key) as client:
            # By name, as another tier may answer it while L0 is busy.
            greeting = (await client.ask("Hello", model="tier:l0", cache=False, deadline_s=10)).text
        return Questions(self.mesh.config.tiers, greeting)

    def process(self, target: str) -> psutil.Process:
        """Returns a target's process.

        Raises:
            LookupError: it is not running.
        """
        wanted = self._targets[target]
        word = wanted.word or str(cluster_endpoints(self.mesh.config, wanted.cluster)[wanted.replica])
        for process in self.mesh.processes():
            line = process.cmdline()
            # Redis writes its title over its arguments.
            if word in line or (word == "redis-server" and any(word in part for part in line)):
                return process
        raise LookupError(f"no process with argument {word}")

    def kill(self, target: str, number: signal.Signals = signal.SIGKILL) -> None:
        """Ends a process, without warning unless another signal says so."""
        victim = self.process(target)
        self._killed.add(victim.create_time())
        victim.send_signal(number)

    async def strike(self, fault: Fault, target: str) -> float | None:
        """SIGKILL; SIGTERM; SIGSTOP; or SIGSTOP for nine tenths of the time."""
        if fault in ("kill", "stop"):
            self.kill(target, signal.SIGKILL if fault == "kill" else signal.SIGTERM)
            return None
        victim = self.process(target)
        if fault == "hang":
            victim.suspend()
            try:
                await asyncio.sleep(self.timing.fault_s)
            finally:
                victim.resume()
            return None
        return await self._slow(victim)

    async def _slow(self, victim: psutil.Process) -> float:
        began, ran_s = time.monotonic(), 0.0
        while time.monotonic() < began + self.timing.fault_s:
            victim.suspend()
            try:
                await asyncio.sleep(_STOPPED_S)
            finally:
                victim.resume()
                resumed = time.monotonic()
            await asyncio.sleep(_RUNNING_S)
            ran_s += time.monotonic() - resumed
        return (time.monotonic() - began) / ran_s

    async def back(self, target: str) -> None:
        """Returns once the process serves, and Envoy, where it sends requests to it, knows."""
        await _until(lambda: self.process(target).create_time() not in self._killed)
        await _until(lambda: self._serves(target))

    def _serves(self, target: str) -> bool:
        network, wanted = self.mesh.config.network, self._targets[target]
        if not wanted.cluster:
            ports = {
                "redis": network.redis_port,
                "traces": network.traces_port,
                "control plane": network.xds_port,
                DOOR: network.ingress_port,
            }
            with socket.create_connection((network.bind, ports[target]), timeout=1):
                return True
        endpoint = cluster_endpoints(self.mesh.config, wanted.cluster)[wanted.replica]
        with grpc.insecure_channel(str(endpoint)) as channel:
            health = health_pb2_grpc.HealthStub(channel).Check(health_pb2.HealthCheckRequest(), timeout=1)
        if health.status != health_pb2.HealthCheckResponse.SERVING:
            return False
        admin = f"http://127.0.0.1:{network.admin_port}/clusters?format=json"
        for status in httpx.get(admin, timeout=1).json()["cluster_statuses"]:
            for host in status.get("host_statuses", []) if status["name"] == wanted.cluster else []:
                state = host["health_status"]
                if host["address"]["socket_address"]["port_value"] == endpoint.port:
                    return state.get("eds_health_status") == "HEALTHY" and not (
                        state.get("failed_active_health_check") or state.get("failed_outlier_check")
                    )
        return False


async def _until(condition: Callable[[], bool]) -> None:
    while True:
        try:
            if await asyncio.to_thread(condition):
                return
        except (LookupError, OSError, grpc.RpcError, httpx.HTTPError, psutil.Error):
            pass
        await asyncio.sleep(0.1)
