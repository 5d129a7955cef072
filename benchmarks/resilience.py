"""What a fault of one process does to the requests of others, and what overload and outages cost.

    make bench-resilience
    python benchmarks/resilience.py --faults kill,hang --targets envoy,redis

Starts a whole mesh of its own (profile lite: the engines are simulated, everything else is real) and does every fault
to every process in turn while six callers keep asking; tests/harness/scenarios.py says how. The other figures come
from queueing models in virtual time and say so. Writes benchmarks/out/resilience.json; what is not measured is null there and
listed in `not_measured`.
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
from pathlib import Path
from typing import Any

import structlog
from rich.console import Console
from rich.markup import escape
from rich.table import Table

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "tests"))

from harness.mesh import running_mesh  # noqa: E402 -- the harness is not installed
from harness.overload import Load  # noqa: E402
from harness.scenarios import DEADLINE_S, FAULTS, SETTINGS, TARGETS, Report, run_scenario  # noqa: E402
from harness.storm import naive_client, sdk_client, storm  # noqa: E402
from tiermesh.client import AsyncClient, RetryTokens, Unavailable  # noqa: E402
from tiermesh.shared.config import TierConfig  # noqa: E402

OUT = ROOT / "benchmarks" / "out" / "resilience.json"
OUTAGE_REQUESTS = 100
NOT_MEASURED = {"overshoot_p999_ms": "10,000 requests with 10 % faults have not been run"}


def scenarios(console: Console, faults: list[str], targets: list[str]) -> list[Report]:
    """Does every fault to every process, one after the other, on one mesh."""
    reports = []
    chosen = [target for target in TARGETS if not targets or any(word in target.name for word in targets)]
    with tempfile.TemporaryDirectory() as folder, running_mesh(Path(folder), "lite", SETTINGS) as mesh:
        for fault in faults:
            for target in chosen:
                report = asyncio.run(run_scenario(mesh, target, fault))
                reports.append(report)
                ends = " ".join(
                    f"{key}={value}" for key, value in report.row().items() if key not in ("name", "cluster")
                )
                console.print(f"[dim]{report.name}: {ends}", highlight=False, soft_wrap=True)
                for failure in report.failures():
                    console.print(f"  [red]{escape(failure)}", highlight=False, soft_wrap=True)
    return reports


class _CountingTokens(RetryTokens):
    """Counts the retries that it allows."""

    taken = 0

    def take(self) -> bool:
        """Takes a token for a retry; tells whether there was one."""
        allowed = super().take()
        self.taken += allowed
        return allowed


async def attempts_in_an_outage() -> float:
    """Returns the calls per request that the SDK makes of a mesh that is not there, with its defaults."""
    tokens, unavailable = _CountingTokens(), 0
    # Nothing listens on port 1.
    async with AsyncClient("127.0.0.1:1", tokens=tokens) as client:
        for _ in range(OUTAGE_REQUESTS):
            try:
                await client.ask("x", deadline_s=10)
            except Unavailable:
                unavailable += 1
    if unavailable != OUTAGE_REQUESTS:
        raise RuntimeError(f"{OUTAGE_REQUESTS - unavailable} requests of a mesh that is not there did not fail")
    return (OUTAGE_REQUESTS + tokens.taken) / OUTAGE_REQUESTS


def overload_goodput() -> float:
    """Returns useful answers at three times the capacity over capacity, for a minute of virtual time."""
    tier = TierConfig(name="l1", backend="simulated", model="toy", slots=16, queue=64)
    capacity = Load(tier).capacity()
    return Load(tier).overload(3 * capacity, deadline_s=10.0).goodput() / capacity


def other_figures() -> dict[str, Any]:
    """Returns the figures that need no mesh."""
    return {
        "attempts_per_request_outage": asyncio.run(attempts_in_an_outage()),
        "wasted_share_sdk": round(storm(sdk_client, slots=10).wasted_share, 4),
        "wasted_share_naive": round(storm(lambda _: naive_client(), slots=10).wasted_share, 4),
        "overshoot_p999_ms": None,
        "overload_goodput_ratio": round(overload_goodput(), 3),
        "not_measured": NOT_MEASURED,
        "notes": {
            "wasted_share_sdk": "virtual time, a queueing model whose p99 is 280 ms at 80 % load, twice that for 5 s",
            "wasted_share_naive": "the same with clients that time out at 300 ms and try again twice at once",
            "overload_goodput_ratio": "virtual time, simulated backend, 3x capacity for 60 s, deadline 10 s",
            "attempts_per_request_outage": f"{OUTAGE_REQUESTS} requests, one after the other, nothing listens",
        },
    }


def show(console: Console, reports: list[Report], figures: dict[str, Any]) -> None:
    """Prints the table and the figures."""
    columns = (
        *("sent", "right", "refused", "wrong", "lost", "cut_with_envoy", "unreached"),
        *("worst_overshoot_ms", "client_lag_ms", "stalled_runs", "recovery_s"),
    )
    table = Table("scenario", *columns, title=f"Faults under load (lite, simulated engines, deadline {DEADLINE_S} s)")
    for report in reports:
        row = report.row()
        table.add_row(report.name, *("never" if row[column] is None else str(row[column]) for column in columns))
    console.print(table)
    for key, value in figures.items():
        if not isinstance(value, dict):
            console.print(f"{key:<30} {'not measured' if value is None else value}", highlight=False)


def main() -> int:
    """Measures, prints and writes the figures."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--faults", default=",".join(FAULTS), help="which faults, with commas between")
    parser.add_argument(
        "--targets", default="", help="words of the processes' names, with commas between; all by default"
    )
    options = parser.parse_args()
    # The engine of the queueing model logs what it refuses.
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.WARNING))
    console = Console(width=None if sys.stdout.isatty() else 160)
    figures = other_figures()
    reports = scenarios(console, options.faults.split(","), [word for word in options.targets.split(",") if word])
    show(console, reports, figures)
    OUT.parent.mkdir(exist_ok=True)
    machine = {"cores": os.cpu_count(), "system": platform.system(), "python": platform.python_version()}
    result = {"scenarios": [report.row() for report in reports], **figures, "machine": machine}
    OUT.write_text(json.dumps(result, indent=2) + "\n", encoding="utf-8")
    console.print(f"written to {OUT.relative_to(ROOT)}")
    return int(any(report.count("wrong") or report.lost or report.recovery_s is None for report in reports))


if __name__ == "__main__":
    sys.exit(main())
