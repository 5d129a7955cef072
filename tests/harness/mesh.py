"""A whole mesh of real processes, started the way a user starts it."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import grpc
import httpx
import openai
import psutil
import yaml
from harness.eventually import eventually
from harness.ports import free_port_base, network_environment
from tiermesh.router.settings import make_snapshot
from tiermesh.shared.config import TiermeshConfig, load_config

ROOT = Path(__file__).resolve().parents[2]
TIERMESH = Path(sys.executable).parent / "tiermesh"


PATIENT_DEADLINES = {"cache_ms": 10_000, "classifier_ms": 10_000, "reserve_ms": 500}
PATIENT_CACHE = {"store_timeout_ms": 10_000}
PATIENT: dict[str, object] = {
    "deadlines": PATIENT_DEADLINES,
    "cache": PATIENT_CACHE,
    "classifier": {"model_timeout_ms": 10_000},
    "health": {"timeout_ms": 30_000},
}
"""Keys for a mesh on a busy machine.

With the shipped ones, a pause of some milliseconds turns a hit into a miss and another tier's question into one that
nobody has judged; one of two seconds takes a process out.
"""


OTHER_KEY = "key-of-another-tenant"
"""What the other tenant of `TWO_TENANTS` sends."""
TWO_TENANTS = {
    "tenants": [{"name": "local", "key_file": "keys/local"}, {"name": "other", "key_env": "OTHER_TENANTS_KEY"}]
}


@dataclass(frozen=True)
class Mesh:
    """A running mesh with a state folder, configuration and ports of its own."""

    folder: Path
    environ: dict[str, str]

    @property
    def config_path(self) -> Path:
        """Its configuration file, which tests may change."""
        return self.folder / "mesh.yaml"

    @property
    def state(self) -> Path:
        """Its state folder."""
        return self.folder / "state"

    @cached_property
    def config(self) -> TiermeshConfig:
        """The configuration it was started with."""
        return load_config(self.config_path, self.environ)

    @cached_property
    def key(self) -> str:
        """An API key of tenant `local`."""
        return (self.state / "keys" / "local").read_text(encoding="utf-8").split()[0]

    @property
    def url(self) -> str:
        """The ingress, without a path."""
        return f"http://127.0.0.1:{self.config.network.ingress_port}"

    @property
    def target(self) -> str:
        """The ingress as a gRPC target."""
        return f"127.0.0.1:{self.config.network.ingress_port}"

    @property
    def metadata(self) -> tuple[tuple[str, str], ...]:
        """gRPC metadata that authenticates."""
        return (("authorization", f"Bearer {self.key}"),)

    def openai(self, **options: object) -> openai.OpenAI:
        """The official client, with nothing changed but its base URL and key; it does not retry."""
        return openai.OpenAI(
            base_url=f"{self.url}/v1", api_key=self.key, **{"max_retries": 0, "timeout": 100, **options}
        )

    def http(self, **options: object) -> httpx.Client:
        """A plain HTTP client that authenticates."""
        headers = {"authorization": f"Bearer {self.key}"}
        return httpx.Client(base_url=self.url, **{"headers": headers, "timeout": 100, **options})

    def channel(self) -> grpc.aio.Channel:
        """A plain gRPC channel to the ingress."""
        return grpc.aio.insecure_channel(self.target)

    def tiermesh(self, *arguments: str, check: bool = True, timeout: float = 300) -> subprocess.CompletedProcess[str]:
        """Runs the command line against this mesh."""
        return subprocess.run(
            [TIERMESH, *arguments], env=self.environ, check=check, timeout=timeout, capture_output=True, text=True
        )

    def version(self) -> str:
        """Returns the version that the configuration file and its rules have now: routers name the one they decide by."""
        config = load_config(self.config_path, self.environ)
        return make_snapshot(config, rules=config.rules.read_bytes(), loaded_at=0).version

    async def decides_by_the_file(self) -> None:
        """Waits until the router decides by what the configuration file says now."""
        body = {"request": {"messages": [{"role": "ROLE_USER", "content": "hello"}]}}
        wanted = self.version()
        headers = {"authorization": f"Bearer {self.key}"}
        async with httpx.AsyncClient(base_url=self.url, headers=headers, timeout=60) as client:

            async def known() -> bool:
                answer = await client.post("/v1/explain", json=body)
                return answer.status_code == 200 and answer.json()["route"]["config_version"] == wanted

            await eventually(known)

    @asynccontextmanager
    async def changed(self, change: dict[str, object]) -> AsyncIterator[None]:
        """Merges keys into the configuration, and puts it back; either way, waits until the router decides by it."""
        before = self.config_path.read_text(encoding="utf-8")
        self.edit(change)
        try:
            await self.decides_by_the_file()
            yield
        finally:
            self.write(before)
            await self.decides_by_the_file()

    def edit(self, change: dict[str, object]) -> None:
        """Merges keys into the configuration file, by replacing the file in one step."""
        raw = yaml.safe_load(self.config_path.read_text(encoding="utf-8"))
        raw.update(change)
        self.write(yaml.safe_dump(raw, allow_unicode=True))

    def edit_tier(self, name: str, **change: object) -> None:
        """Changes keys of one tier in the configuration file, in one step."""
        raw = yaml.safe_load(self.config_path.read_text(encoding="utf-8"))
        tiers = {tier["name"]: tier for tier in raw.get("tiers", [])}
        tiers[name] = {**tiers.get(name, {"name": name}), **change}
        self.edit({"tiers": list(tiers.values())})

    def write(self, text: str) -> None:
        """Replaces the configuration file in one step."""
        fresh = self.config_path.with_suffix(".new")
        fresh.write_text(text, encoding="utf-8")
        fresh.replace(self.config_path)

    def processes(self) -> list[psutil.Process]:
        """Every live process of this mesh: by its state folder in the environment, or, for a Redis, by its port.

        Redis writes its title over its environment.
        """
        redis = f"redis-server 127.0.0.1:{self.config.network.redis_port}"
        found = []
        for process in psutil.process_iter():
            try:
                ours = process.environ().get("TIERMESH_STATE") == str(self.state)
                if not ours and redis not in " ".join(process.cmdline()):
                    continue
                if process.pid != os.getpid() and process.is_running() and process.status() != psutil.STATUS_ZOMBIE:
                    found.append(process)
            except psutil.Error:
                continue
        return found

    def process(self, *words: str) -> psutil.Process:
        """Returns the one process whose command line has all of `words`.

        Raises:
            LookupError: there is none.
        """
        lines = []
        for process in self.processes():
            try:
                lines.append(process.cmdline())
            except psutil.Error:
                # It has ended since.
                continue
            if all(any(word in part for part in lines[-1]) for word in words):
                return process
        raise LookupError(f"no process with {words} among {lines}")


def prepare_mesh(folder: Path, profile: str, change: dict[str, object] | None = None) -> Mesh:
    """Lays out a mesh of a shipped profile below `folder`, on free ports, without starting it."""
    profiles = ROOT / "mesh" / "profiles"
    for source in profiles.glob("*.yaml"):
        shutil.copy(source, folder / source.name)
    (folder / "mesh.yaml").write_text(
        yaml.safe_dump({"extends": f"{profile}.yaml", **(change or {})}), encoding="utf-8"
    )
    environ = {k: v for k, v in os.environ.items() if not k.startswith(("TIERMESH", "OTEL_", "REDIS_URL"))}
    environ |= network_environment(free_port_base())
    environ |= {
        "TIERMESH_CONFIG": str(folder / "mesh.yaml"),
        "TIERMESH_STATE": str(folder / "state"),
        "NO_COLOR": "1",
    }
    return Mesh(folder, environ)


@contextmanager
def running_mesh(folder: Path, profile: str, change: dict[str, object] | None = None, **environ: str) -> Iterator[Mesh]:
    """Starts a mesh of a shipped profile and stops it at the end.

    Args:
        folder: An empty folder for its configuration and state.
        profile: `lite` or `local`.
        change: Keys that override the profile's.
        environ: Extra environment of all its processes.
    """
    mesh = prepare_mesh(folder, profile, change)
    mesh.environ.update(environ)
    started = mesh.tiermesh("up", "--config", str(mesh.config_path), check=False, timeout=600)
    if started.returncode != 0:
        mesh.tiermesh("down", check=False)
        raise RuntimeError(f"tiermesh up failed:\n{started.stdout}\n{started.stderr}")
    try:
        yield mesh
    finally:
        mesh.tiermesh("down")
