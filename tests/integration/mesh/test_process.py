"""The control plane as a process: files followed, killed and restarted under traffic, stopped by a signal."""

import asyncio
import os
import signal
import sys
from contextlib import asynccontextmanager

import grpc
import pytest
import yaml
from harness.envoy import ENVOY, running_envoy
from harness.eventually import eventually
from harness.ports import free_port_base, network_environment
from harness.stub_services import running_stub
from harness.traffic import steady_traffic
from tiermesh.api.mesh.v1 import mesh_pb2, mesh_pb2_grpc
from tiermesh.shared.config import load_config
from tiermesh.shared.endpoints import replica_endpoint
from tiermesh.shared.rpc import open_channel

pytestmark = pytest.mark.envoy
CHAT = {"model": "auto", "messages": [{"role": "user", "content": "ok"}]}
VALUES = {
    "tenants": [{"name": "acme", "key_file": "keys/acme"}],
    "tiers": [{"name": "l1", "backend": "rules"}],
    # The router is of this test's own process, which must not be out of use after each of its pauses.
    "health": {"timeout_ms": 30_000},
}


class Mesh:
    """A configuration file, a state folder, and the environment that moves the ports."""

    def __init__(self, folder):
        self.folder, self.path = folder, folder / "mesh.yaml"
        self.state = folder / "state"
        (self.state / "keys").mkdir(parents=True)
        self.environ = network_environment(free_port_base())
        self.write(VALUES)
        self.write_key("first-key-12345")
        self.config = load_config(self.path, self.environ)

    def write(self, values):
        self.replace(self.path, values if isinstance(values, str) else yaml.safe_dump(values))

    def write_key(self, text):
        self.replace(self.state / "keys" / "acme", text + "\n")

    def replace(self, path, text):
        # As editors and Kubernetes do it.
        path.with_suffix(".new").write_text(text)
        path.with_suffix(".new").rename(path)

    async def start(self):
        with (self.folder / "mesh.log").open("ab") as log:
            return await asyncio.create_subprocess_exec(
                *(sys.executable, "-m", "tiermesh.mesh", "--config", self.path, "--state", self.state),
                env={**os.environ, **self.environ},
                stdout=log,
                stderr=log,
            )

    @asynccontextmanager
    async def running(self):
        process = await self.start()
        try:
            async with open_channel(f"127.0.0.1:{self.config.network.xds_port}") as channel:
                yield process, mesh_pb2_grpc.MeshServiceStub(channel)
        finally:
            if process.returncode is None:
                process.kill()
            await process.wait()

    def log(self):
        return (self.folder / "mesh.log").read_text()


async def status_where(stub, check):
    async def fits():
        try:
            status = await stub.GetStatus(mesh_pb2.GetStatusRequest(), timeout=10)
        except grpc.aio.AioRpcError:
            return None
        return status if check(status) else None

    return await eventually(fits)


async def test_files_are_followed_and_bad_ones_refused_with_a_reason(tmp_path):
    mesh = Mesh(tmp_path)
    async with mesh.running() as (process, stub):
        first = await status_where(stub, lambda s: s.config_version)
        assert [c.name for c in first.clusters] == ["router", "classifier", "cache", "engine-l1"]
        mesh.write({**VALUES, "tiers": [{"name": "l1", "backend": "rules", "replicas": 3}]})
        grown = await status_where(stub, lambda s: s.config_version != first.config_version)
        assert [len(c.endpoints) for c in grown.clusters] == [1, 1, 1, 3]
        for bad, reason in (
            ({**VALUES, "tiers": [{"name": "l1", "backend": "rules", "replicas": 99}]}, "tiers.0.replicas"),
            ({**VALUES, "teirs": []}, "teirs"),
            ("tiers: [", "YAML"),
        ):
            mesh.write(bad)
            refused = await status_where(stub, lambda s, reason=reason: reason in s.rejection)
            assert refused.config_version == grown.config_version
            assert reason in mesh.log()
        mesh.write(VALUES)
        back = await status_where(stub, lambda s: not s.rejection)
        assert back.config_version == first.config_version
        # Keys are followed, too, and never written anywhere.
        mesh.write_key("")
        await status_where(stub, lambda s: "acme" in s.rejection)
        mesh.write_key("second-key-67890")
        changed = await status_where(stub, lambda s: not s.rejection)
        assert changed.config_version != first.config_version
        assert "first-key" not in mesh.log()
        assert "second-key" not in mesh.log()
        process.send_signal(signal.SIGTERM)
        async with asyncio.timeout(60):
            assert await process.wait() == 0


async def test_a_first_configuration_that_cannot_be_used_ends_the_process_with_the_reason(tmp_path):
    mesh = Mesh(tmp_path)
    (mesh.state / "keys" / "acme").unlink()
    process = await mesh.start()
    async with asyncio.timeout(60):
        assert await process.wait() == 1
    assert "keys/acme" in mesh.log()


async def test_the_bootstrap_command_prints_what_envoy_takes(tmp_path):
    mesh = Mesh(tmp_path)
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "tiermesh.mesh", "bootstrap", "--config", mesh.path, "--role", "sidecar"),
        stdout=asyncio.subprocess.PIPE,
        env={**os.environ, **mesh.environ},
    )
    output, _ = await process.communicate()
    assert process.returncode == 0
    document = yaml.safe_load(output)
    assert document["node"] == {"id": "sidecar", "cluster": "tiermesh", "metadata": {"role": "sidecar"}}
    assert document["admin"]["address"]["socket_address"]["address"] == "127.0.0.1"
    path = tmp_path / "envoy.yaml"
    path.write_bytes(output)
    check = await asyncio.create_subprocess_exec(
        *(ENVOY, "--mode", "validate", "--disable-hot-restart", "-c", path),
        stdout=asyncio.subprocess.DEVNULL,
        stderr=asyncio.subprocess.DEVNULL,
    )
    assert await check.wait() == 0


async def test_killed_under_traffic_nothing_fails_and_a_restart_is_found_again(tmp_path):
    mesh = Mesh(tmp_path)
    async with running_stub(replica_endpoint(mesh.config, "router", 0)), mesh.running() as (process, stub):
        await status_where(stub, lambda s: s.config_version)
        async with running_envoy(mesh.config, tmp_path) as envoy, envoy.http("first-key-12345") as client:
            await envoy.healthy("router")

            async def send():
                answer = await client.post("/v1/chat/completions", json=CHAT)
                return None if answer.status_code == 200 else answer.text

            async with steady_traffic(send) as traffic:
                process.kill()
                await process.wait()
                await traffic.more(50)
                async with mesh.running() as (_, again):
                    status = await status_where(again, lambda s: len(s.subscribers) == 1)
                    assert status.subscribers[0].node_id == "local"
                    await traffic.more()
                    mesh.write({**VALUES, "deadlines": {"default_ms": 54_321}})

                    async def arrived():
                        return "54.321s" in (await envoy.admin("/config_dump?resource=dynamic_route_configs")).text

                    await eventually(arrived)
            assert traffic.failures == []
