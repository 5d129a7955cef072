"""Faults done to one process of a mesh under steady load: written once, run on fakes in process and on real processes.

`run_scenario` keeps callers asking, does the fault, and waits until the mesh has recovered unaided.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from typing import Literal, Protocol

from harness.scenario_load import GIVE_UP_S, Ask, Load, Plan, Questions
from harness.scenario_report import Report

Fault = Literal["kill", "hang", "slow", "stop"]
"""`stop` is no fault but an order, which real processes alone take: they drain."""
FAULTS: tuple[Fault, ...] = ("kill", "hang", "slow")
DOOR = "envoy"
"""The target that holds the callers' connections."""


@dataclass(frozen=True)
class Timing:
    """How long things take in a cluster."""

    deadline_s: float
    """Of requests while the fault lasts."""
    recovered_deadline_s: float
    """Of requests once it is over: those have to be answered."""
    warm_s: float
    """Load before the fault."""
    fault_s: float
    """How long a process hangs or is slow. Longer than the deadline, so that requests run into theirs."""
    right_again: int
    """Right answers in a row, to requests sent once the process serves again, that count as recovery."""
    recovery_limit_s: float
    """How long recovery may take."""
    repeats: int = 0
    """How often a run is put aside in which the callers were not run for longer than they wait for a silent mesh: they
    cannot tell whose silence it was."""


class Cluster(Protocol):
    """A mesh to which faults can be done."""

    label: str
    timing: Timing
    targets: Sequence[str]

    def callers(self, *, door_hit: bool) -> AbstractAsyncContextManager[Sequence[tuple[Ask, Plan]]]:
        """Opens the callers."""
        ...

    async def questions(self) -> Questions:
        """Returns the maker of questions."""
        ...

    async def strike(self, fault: Fault, target: str) -> float | None:
        """Does the fault, for its time; a killed process stays for others to start again.

        Returns:
            Times by which the process itself got slower, for `slow`.
        """
        ...

    async def back(self, target: str) -> None:
        """Returns once the process serves, and those who send it requests know."""
        ...


async def run_scenario(cluster: Cluster, target: str, fault: Fault) -> Report:
    """Does a fault to a process under load and waits until the mesh has recovered.

    A run in which the machine stalled the callers, known by their timers and not by what came of it, is put aside and
    counted, as often as the cluster's timing allows.

    Returns:
        The report; its `recovery_s` is None where the mesh has not recovered within the cluster's limit.
    """
    questions = await cluster.questions()
    report = await _run_once(cluster, questions, target, fault)
    stalled = 0
    while report.client_lag_ms > GIVE_UP_S * 1000 and stalled < cluster.timing.repeats:
        stalled += 1
        report = await _run_once(cluster, questions, target, fault)
    report.stalled_runs = stalled
    return report


async def _run_once(cluster: Cluster, questions: Questions, target: str, fault: Fault) -> Report:
    timing, door_hit = cluster.timing, target == DOOR
    report = Report(f"{fault} {target}", cluster.label, door_hit)
    async with cluster.callers(door_hit=door_hit) as callers:
        load = Load(callers, questions, report, deadline_s=timing.deadline_s)
        async with load.running():
            await asyncio.sleep(timing.warm_s)
            report.slowed = await cluster.strike(fault, target)
            since = time.monotonic()
            load.deadline_s = timing.recovered_deadline_s
            try:
                async with asyncio.timeout(timing.recovery_limit_s):
                    await cluster.back(target)
                    served = time.monotonic()
                    while report.right_since(served) < timing.right_again:  # noqa: ASYNC110 -- other tasks fill the report
                        await asyncio.sleep(0.02)
                    report.recovery_s = served - since
            except TimeoutError:
                pass
    return report
