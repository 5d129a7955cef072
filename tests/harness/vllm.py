"""Engines with real weights, as processes of the engine environment."""

import glob
import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import grpc
import psutil
import pytest
from grpc_health.v1 import health_pb2, health_pb2_grpc
from harness.ports import free_port_base

ROOT = Path(__file__).resolve().parents[2]
MODEL = "package:smollm2-135m-instruct"
CONFIG = f"""
tenants: [{{name: local, key_file: keys/local}}]
discovery: {{mode: dns}}
drain_s: 3
tiers:
  - {{name: l1, backend: vllm, model: "{MODEL}", context_tokens: 1024, answer_tokens: 256, slots: 8, cpu_cores: "0"}}
  - name: l2
    backend: vllm
    model: "{MODEL}"
    served_model: smollm2-135m-instruct-long
    context_tokens: 8192
    answer_tokens: 1024
    slots: 8
    cpu_cores: "1"
"""
_READY_S = 300.0


@dataclass
class EngineProcess:
    """A running `python -m tiermesh.engine`."""

    process: subprocess.Popen[bytes]
    target: str
    log: Path

    def workers(self) -> list[psutil.Process]:
        """vLLM's processes below this one."""
        found = psutil.Process(self.process.pid).children(recursive=True)
        return [child for child in found if "VLLM" in "".join(child.cmdline())]

    def serving(self) -> bool:
        """Asks its health service."""
        with grpc.insecure_channel(self.target) as channel:
            try:
                reply = health_pb2_grpc.HealthStub(channel).Check(health_pb2.HealthCheckRequest(), timeout=5)
            except grpc.RpcError:
                return False
        return reply.status == health_pb2.HealthCheckResponse.SERVING


def engine_python() -> str:
    """Returns the interpreter of the engine environment; fails where there is none."""
    named = os.environ.get("TIERMESH_ENGINE_PYTHON")
    if named:
        return named
    cache = os.environ.get("XDG_CACHE_HOME") or str(Path.home() / ".cache")
    found = sorted(glob.glob(f"{cache}/tiermesh/envs/engine-*/bin/python"), key=os.path.getmtime)  # noqa: PTH207 -- a pattern over folders
    if not found:
        pytest.fail(
            "there is no engine environment: make it with `make env-test`, name its interpreter in "
            "TIERMESH_ENGINE_PYTHON, or leave these tests out with -m 'not vllm'"
        )
    return found[-1]


@contextmanager
def running_engines(folder: Path, tiers: tuple[str, ...] = ("l1", "l2")) -> Iterator[dict[str, EngineProcess]]:
    """Runs engines side by side, by tier, each on a core of its own; all are SERVING."""
    python = engine_python()
    config = folder / "mesh.yaml"
    config.write_text(CONFIG)
    paths = ("protos/gen", "shared/src", "services/engine/src")
    environ = {**os.environ, "PYTHONPATH": os.pathsep.join(str(ROOT / path) for path in paths)}
    subprocess.run([python, "-m", "tiermesh.engine.fetch", "--model", MODEL], env=environ, check=True)
    base = free_port_base()
    started: dict[str, EngineProcess] = {}
    try:
        for number, tier in enumerate(tiers):
            target, log = f"127.0.0.1:{base + number}", folder / f"{tier}.log"
            arguments = ["--config", str(config), "--state", str(folder), "--tier", tier, "--listen", target]
            with log.open("wb") as output:
                process = subprocess.Popen(
                    [python, "-m", "tiermesh.engine", *arguments], env=environ, stdout=output, stderr=output
                )
            started[tier] = EngineProcess(process, target, log)
        for engine in started.values():
            _wait_until_serving(engine)
        yield started
    finally:
        for engine in started.values():
            for process in [*_workers_or_none(engine), engine.process]:
                process.kill()
            engine.process.wait()


def _workers_or_none(engine: EngineProcess) -> list[psutil.Process]:
    try:
        return engine.workers()
    except psutil.NoSuchProcess:
        return []


def _wait_until_serving(engine: EngineProcess) -> None:
    with grpc.insecure_channel(engine.target) as channel:
        watch = health_pb2_grpc.HealthStub(channel).Watch(
            health_pb2.HealthCheckRequest(), timeout=_READY_S, wait_for_ready=True
        )
        try:
            for reply in watch:
                if reply.status == health_pb2.HealthCheckResponse.SERVING:
                    watch.cancel()
                    return
        except grpc.RpcError as error:
            pytest.fail(f"the engine did not become ready ({error.code()}):\n{engine.log.read_text()[-3000:]}")
