"""How the commands show what they found."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path

from rich.console import Console
from rich.table import Table
from rich.text import Text
from tiermesh.mesh.local.doctor import Finding
from tiermesh.mesh.local.log_files import LogFollower, parse_line
from tiermesh.mesh.local.status import MeshStatus
from tiermesh.shared.local_mesh import LocalMesh


def duration(seconds: float) -> str:
    """Returns a duration in its two largest units."""
    whole = int(seconds)
    for size, unit, smaller, name in ((86400, "d", 3600, "h"), (3600, "h", 60, "min"), (60, "min", 1, "s")):
        if whole >= size:
            return f"{whole // size} {unit} {whole % size // smaller} {name}"
    return f"{whole} s"


def show_status(console: Console, mesh: LocalMesh, status: MeshStatus) -> None:
    """Prints the status as a table."""
    table = Table(box=None, pad_edge=False, header_style="bold" if console.is_terminal else "")
    for title in ("process", "state", "health", "pid", "port", "memory", "up"):
        table.add_column(title, justify="right" if title in {"pid", "port", "memory", "up"} else "left", no_wrap=True)
    for line in status.processes:
        table.add_row(
            line.name,
            line.state,
            Text(line.health, style="green" if line.is_well else "red"),
            str(line.pid or "-"),
            str(line.port or "-"),
            f"{line.memory_mb:.0f} MB" if line.pid else "-",
            duration(line.uptime_s) if line.pid else "-",
        )
    console.print(table)
    console.print(f"\nprofile {mesh.profile}, configuration {mesh.config_path}", markup=False)
    if status.control is None:
        console.print("the control plane does not answer", markup=False)
        return
    console.print(f"serving configuration {status.control.config_version or '(none yet)'}", markup=False)
    if status.control.rejection:
        console.print(f"the newest file was refused: {status.control.rejection}", markup=False)
    for subscriber in status.control.subscribers:
        console.print(f"subscriber {subscriber}", markup=False)


def show_findings(console: Console, findings: Sequence[Finding]) -> None:
    """Prints findings, with what to do about each."""
    styles = {"ok": "green", "warning": "yellow", "problem": "red"}
    for finding in findings:
        console.print(Text(f"{finding.level:<8}", style=styles[finding.level]), Text(finding.what))
        if finding.advice:
            console.print(Text(f"{'':<9}what to do: {finding.advice}"))
    problems = sum(finding.level == "problem" for finding in findings)
    console.print(f"\n{problems} problem(s)" if problems else "\nnothing is wrong", markup=False)


def by_time(lines: Iterable[tuple[str, str]]) -> list[tuple[str, str]]:
    """Orders (line, process) pairs by the time in the line; a line without one follows the one before it."""
    keyed = []
    times: dict[str, str] = {}
    for line, process in lines:
        times[process] = str(parse_line(line, process).get("timestamp", times.get(process, "")))
        keyed.append((times[process], line, process))
    return [(line, process) for _, line, process in sorted(keyed, key=lambda entry: entry[0])]


def follow_many(files: Mapping[str, Path], show: Callable[[str, str], None]) -> None:
    """Shows what is added to several logs, until interrupted."""
    followers = {name: LogFollower(path) for name, path in files.items()}
    while True:
        quiet = True
        for name, follower in followers.items():
            for line in follower.read():
                show(line, name)
                quiet = False
        if quiet:
            time.sleep(0.1)
