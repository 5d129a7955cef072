"""A real Envoy on free ports."""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import httpx
import yaml
from harness.eventually import eventually
from harness.ports import free_port_base, network_environment
from tiermesh.mesh.bootstrap import make_bootstrap
from tiermesh.mesh.role import Role, has_ingress, has_mesh
from tiermesh.mesh.sds import make_secrets, sds_path
from tiermesh.shared.config import TiermeshConfig, parse_config

ENVOY = Path(sys.executable).parent / "envoy"
KEY = "test-key-of-acme-1234"
OTHER_KEY = "test-key-of-globex-99"


def mesh_config(folder: Path, environ: dict[str, str] | None = None, **sections: object) -> TiermeshConfig:
    """Returns a small configuration on free ports, with two tenants whose keys are `KEY` and `OTHER_KEY`.

    Its health checks are patient: services of the test's own process must not be out of use after each of its pauses.
    """
    values: dict[str, object] = {
        "tenants": [{"name": "acme", "key_env": "ACME_KEY"}, {"name": "globex", "key_env": "GLOBEX_KEY"}],
        "tiers": [{"name": "l1", "backend": "rules"}],
        "health": {"timeout_ms": 30_000},
        **sections,
    }
    return parse_config(values, folder / "mesh.yaml", {**network_environment(free_port_base()), **(environ or {})})


@dataclass
class RunningEnvoy:
    """An Envoy that listens."""

    config: TiermeshConfig
    process: asyncio.subprocess.Process
    log: Path

    @property
    def url(self) -> str:
        """Address of the ingress."""
        scheme = "https" if self.config.tls.ingress.enabled else "http"
        return f"{scheme}://127.0.0.1:{self.config.network.ingress_port}"

    def http(self, key: str | None = KEY, **options: object) -> httpx.AsyncClient:
        """Returns a client of the ingress."""
        headers = {"authorization": f"Bearer {key}"} if key else {}
        return httpx.AsyncClient(base_url=self.url, headers=headers, timeout=60, **options)

    async def admin(self, path: str) -> httpx.Response:
        """Reads a page of the admin interface."""
        async with httpx.AsyncClient(timeout=60) as client:
            return await client.get(f"http://127.0.0.1:{self.config.network.admin_port}{path}")

    async def stat(self, name: str) -> int:
        """Returns a counter or gauge; 0 where it does not exist yet."""
        page = (await self.admin(f"/stats?filter=^{name}$")).text
        return int(page.rpartition(":")[2]) if ":" in page else 0

    async def healthy(self, cluster: str, count: int = 1, *, within_s: float = 60.0) -> None:
        """Waits until a cluster has exactly `count` healthy replicas."""

        async def enough() -> bool:
            return await self.stat(f"cluster.{cluster}.membership_healthy") == count

        await eventually(enough, within_s=within_s)


@asynccontextmanager
async def running_envoy(
    config: TiermeshConfig,
    folder: Path,
    *,
    role: Role = "local",
    protocol: Literal["delta", "sotw"] = "delta",
    wait: bool = True,
) -> AsyncIterator[RunningEnvoy]:
    """Starts an Envoy, waits until its listeners take connections, and kills it in the end."""
    bootstrap, log = folder / f"envoy-{role}.yaml", folder / f"envoy-{role}.log"
    bootstrap.write_text(yaml.safe_dump(make_bootstrap(config, role=role, node_id=role, protocol=protocol)))
    for name, secret in make_secrets(config, role).items():
        sds_path(config, name).write_text(yaml.safe_dump(secret))
    with log.open("ab") as output:
        process = await asyncio.create_subprocess_exec(
            ENVOY,
            *("-c", bootstrap, "--disable-hot-restart", "--concurrency", "1", "--log-level", "warning"),
            stdout=output,
            stderr=output,
            env={**os.environ, "GOMAXPROCS": "1"},
        )
    envoy = RunningEnvoy(config, process, log)
    try:
        if wait:
            ports = [config.network.ingress_port] * has_ingress(role) + [config.network.mesh_port] * has_mesh(role)
            for port in ports:
                await eventually(lambda port=port: _takes_connections(envoy, port))
        yield envoy
    finally:
        if process.returncode is None:
            process.kill()
        await process.wait()


async def _takes_connections(envoy: RunningEnvoy, port: int) -> bool:
    if envoy.process.returncode is not None:
        raise AssertionError(f"Envoy ended by itself:\n{envoy.log.read_text()[-3000:]}")
    try:
        _, writer = await asyncio.open_connection("127.0.0.1", port)
    except OSError:
        return False
    writer.close()
    await writer.wait_closed()
    return True
