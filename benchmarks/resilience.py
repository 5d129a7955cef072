"""What faults, outages, storms and overload do to requests.

    make bench-resilience
    python benchmarks/resilience.py --only scenarios --faults kill,hang --targets envoy,redis
    python benchmarks/resilience.py --only overshoot --requests 2000

Parts, in this order; docs/operations/faults.md says what each does:

    in-process   every fault to every part of a mesh in this process: fakes of Envoy, Redis and the model
    scenarios    every fault to every process of a mesh (profile lite: the models are simulated, all else is real)
    outage       calls per request where nothing can answer
    storm        tokens written for callers who have gone, in virtual time
    overshoot    how far past its deadline a request ends when one in ten meets a fault, over the wire through Envoy
    overload     useful answers at three times the capacity, on real processes, and their memory

Writes benchmarks/out/resilience.json, where what has not been run is null (with --update, what an earlier run found), and
what else is known of each part to benchmarks/out/resilience-details.json. Exits with 1 where an answer was wrong or lost, or something did not recover.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import logging
import os
import platform
import sys
import tempfile
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

import structlog
from rich.console import Console
from rich.markup import escape
from rich.table import Table

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "tests"))

from harness import process_overload  # noqa: E402 -- the harness is not installed
from harness.in_process_cluster import InProcessCluster, open_cluster  # noqa: E402
from harness.mesh import running_mesh  # noqa: E402
from harness.outage import calls_of_a_mesh_that_is_gone, calls_of_dead_tiers  # noqa: E402
from harness.overshoot import FAULTY_SHARE, measure_overshoot  # noqa: E402
from harness.process_cluster import SETTINGS, ProcessCluster  # noqa: E402
from harness.scenario_report import Report  # noqa: E402
from harness.scenarios import FAULTS, Cluster, Fault, run_scenario  # noqa: E402
from harness.storm import naive_client, sdk_client, storm  # noqa: E402
from tiermesh.client import Lane  # noqa: E402

OUT = ROOT / "benchmarks" / "out"
PARTS = ("in-process", "scenarios", "outage", "storm", "overshoot", "overload")
FIGURES = (
    *("attempts_per_request_outage", "wasted_share_sdk", "wasted_share_naive"),
    *("overshoot_p999_ms", "overload_goodput_ratio"),
)
Figures = dict[str, float | None]


async def run_all(console: Console, cluster: Cluster, faults: Sequence[Fault], targets: Sequence[str]) -> list[Report]:
    """Does every fault to every target, one after the other."""
    reports = []
    for fault in faults:
        for target in targets:
            report = await run_scenario(cluster, target, fault)
            reports.append(report)
            ends = " ".join(f"{key}={value}" for key, value in (report.row() | report.details()).items())
            console.print(f"[dim]{escape(ends)}", highlight=False, soft_wrap=True)
            for failure in report.failures():
                console.print(f"  [red]{escape(failure)}", highlight=False, soft_wrap=True)
    return reports


def chosen(targets: Sequence[str], words: Sequence[str]) -> list[str]:
    """Returns the targets that have one of the words in their names; all where there are no words."""
    return [target for target in targets if not words or any(word in target for word in words)]


async def in_process(console: Console, faults: Sequence[Fault], words: Sequence[str]) -> list[Report]:
    """Runs the scenarios on fakes in this process."""
    async with open_cluster() as cluster:
        return await run_all(console, cluster, faults, chosen(InProcessCluster.targets, words))


def on_processes(console: Console, faults: Sequence[Fault], words: Sequence[str]) -> list[Report]:
    """Runs the scenarios on real processes."""
    with tempfile.TemporaryDirectory() as folder, running_mesh(Path(folder), "lite", SETTINGS) as mesh:
        return asyncio.run(run_all(console, ProcessCluster(mesh), faults, chosen(ProcessCluster.targets, words)))


def outage(details: dict[str, Any]) -> Figures:
    """Counts calls where nothing can answer."""
    gone = asyncio.run(calls_of_a_mesh_that_is_gone())
    with tempfile.TemporaryDirectory() as folder:
        dead = asyncio.run(calls_of_dead_tiers(Path(folder)))
    details["outage"] = {"sdk_calls_where_nothing_listens": gone, "calls_of_the_tier_called_most": dead}
    return {"attempts_per_request_outage": max(gone, dead)}


def storms(details: dict[str, Any]) -> Figures:
    """Counts tokens written for nobody, while clients time out and try again."""
    ours = {lane.value: storm(partial(sdk_client, lane=lane), slots=10) for lane in (Lane.SIMPLE, Lane.COMPLEX)}
    naive = storm(lambda _: naive_client(), slots=10)
    details["storm"] = {
        name: {
            "wasted_share": round(result.wasted_share, 4),
            "calls_per_request": round(result.calls / len(result.asked), 3),
            "answered_in_the_burst": round(result.success(10, 15), 3),
            "answered_10_s_after_it": round(result.success(25, 35), 4),
        }
        for name, result in (ours | {"naive": naive}).items()
    }
    return {
        "wasted_share_sdk": round(max(result.wasted_share for result in ours.values()), 4),
        "wasted_share_naive": round(naive.wasted_share, 4),
    }


def overshoot(details: dict[str, Any], requests: int) -> Figures:
    """Measures how late requests end."""
    with tempfile.TemporaryDirectory() as folder:
        result = asyncio.run(measure_overshoot(Path(folder), requests=requests))
    lag = sorted(result.lag_ms)
    details["overshoot"] = {
        "requests": len(result.over_ms),
        "faulty_share": FAULTY_SHARE,
        "past_their_deadline": result.late(),
        **{f"p{share * 100:g}_ms": round(result.quantile_ms(share), 1) for share in (0.99, 0.999)},
        "worst_ms": round(result.quantile_ms(1.0), 1),
        "client_lag_p999_ms": round(lag[int(len(lag) * 0.999)], 1),
        "ends": dict(sorted(result.kinds.items())),
    }
    return {"overshoot_p999_ms": round(result.quantile_ms(0.999), 1)}


def overload(details: dict[str, Any], seconds: float) -> Figures:
    """Measures useful answers under three times the work."""
    with (
        tempfile.TemporaryDirectory() as folder,
        running_mesh(Path(folder), "lite", process_overload.SETTINGS) as mesh,
    ):
        run = asyncio.run(process_overload.overload(mesh, seconds=seconds))
    details["overload"] = {
        "seconds": seconds,
        "capacity_per_s": round(run.capacity, 2),
        "offered_per_s": round(run.offered, 2),
        "interactive_answered_share": round(run.answered_share(batch=False), 3),
        "batch_answered_share": round(run.answered_share(batch=True), 3),
        "interactive_p99_s": round(run.interactive_p99_s(), 2),
        "interactive_deadline_s": process_overload.DEADLINE_S,
        "memory_mib": round(run.memory[-1] / 2**20),
        "memory_growth": round(run.memory_growth, 3),
        "ends": dict(run.reasons()),
    }
    return {"overload_goodput_ratio": round(run.goodput_ratio, 3)}


def show(console: Console, reports: Sequence[Report], figures: Figures, details: dict[str, Any]) -> None:
    """Prints the table and the figures."""
    rows = ("sent", "right", "refused", "wrong", "lost", "worst_overshoot_ms")
    more = ("cut", "client_lag_ms", "slowed", "recovery_s", "stalled_runs")
    table = Table("scenario", "cluster", *rows, *more, title="Faults under load")
    for report in reports:
        values = report.row() | report.details()
        table.add_row(
            report.name, report.cluster, *("-" if values[key] is None else str(values[key]) for key in (*rows, *more))
        )
    if reports:
        console.print(table)
    for part, found in details.items():
        if part not in ("scenarios", "machine"):
            console.print(f"{part}: {json.dumps(found)}", highlight=False, soft_wrap=True)
    for key, value in figures.items():
        console.print(f"{key:<30} {'not run' if value is None else value}", highlight=False)


def write(path: Path, found: dict[str, Any], *, update: bool) -> None:
    """Writes what was found; with `update`, over what is there, scenario by scenario."""
    path.parent.mkdir(exist_ok=True)
    if update and path.exists():
        earlier = json.loads(path.read_text(encoding="utf-8"))
        rows = {(row["name"], row["cluster"]): row for row in (*earlier["scenarios"], *found["scenarios"])}
        known = {key: value for key, value in found.items() if value is not None}
        found = {**found, **earlier, **known, "scenarios": list(rows.values())}
    path.write_text(json.dumps(found, indent=2) + "\n", encoding="utf-8")


def main() -> int:
    """Measures, prints and writes the figures."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", default=",".join(PARTS), help="which parts, with commas between; all by default")
    parser.add_argument("--update", action="store_true", help="keep what earlier runs found of parts not run now")
    parser.add_argument("--faults", default=",".join(FAULTS), help="which faults, with commas between")
    parser.add_argument("--targets", default="", help="words of the targets' names; all by default")
    parser.add_argument("--requests", type=int, default=10_000, help="requests of the part overshoot")
    parser.add_argument("--seconds", type=float, default=60.0, help="length of the part overload")
    options = parser.parse_args()
    parts, faults = options.only.split(","), [fault for fault in FAULTS if fault in options.faults.split(",")]
    words = [word for word in options.targets.split(",") if word]
    if unknown := set(parts) - set(PARTS):
        parser.error(f"--only {','.join(sorted(unknown))}: choose from {', '.join(PARTS)}")
    # The services in this process log what they refuse.
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.ERROR))
    console = Console(width=None if sys.stdout.isatty() else 180)
    reports: list[Report] = []
    figures: Figures = dict.fromkeys(FIGURES)
    details: dict[str, Any] = {}
    if "in-process" in parts:
        reports += asyncio.run(in_process(console, faults, words))
    if "scenarios" in parts:
        reports += on_processes(console, faults, words)
    if "outage" in parts:
        figures |= outage(details)
    if "storm" in parts:
        figures |= storms(details)
    if "overshoot" in parts:
        figures |= overshoot(details, options.requests)
    if "overload" in parts:
        figures |= overload(details, options.seconds)
    rows = [report.row() for report in reports]
    details["scenarios"] = [{"name": r.name, "cluster": r.cluster, **r.details()} for r in reports]
    details["machine"] = {"cores": os.cpu_count(), "system": platform.system(), "python": platform.python_version()}
    show(console, reports, figures, details)
    write(OUT / "resilience.json", {"scenarios": rows, **figures}, update=options.update)
    write(OUT / "resilience-details.json", details, update=options.update)
    console.print(f"written to {OUT.relative_to(ROOT)}/resilience.json and resilience-details.json")
    return int(any(report.failures() or report.recovery_s is None for report in reports))


if __name__ == "__main__":
    sys.exit(main())
