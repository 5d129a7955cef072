"""What the containers of a running release take: memory now and at the most, CPU so far."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import psutil
from harness.pods.cluster import PodCluster

MIB = 1024 * 1024


@dataclass(frozen=True)
class Usage:
    """One container, by the kernel's accounts of its process."""

    rss_mib: float
    """Resident memory, files that it maps included: at least what a cgroup counts as its working set."""
    pss_mib: float
    """The same, with what several processes share divided among them."""
    anonymous_mib: float
    """Memory that no file stands behind: what the kernel cannot take away from it."""
    peak_mib: float
    """Most resident memory since it began; the start is within it."""
    cpu_s: float
    """CPU seconds, user's and system's, since it began."""


def container_usages(cluster: PodCluster) -> dict[str, Usage]:
    """Returns what each container of a release takes, as `component/container`; of replicas, the greatest of each."""
    found: dict[str, Usage] = {}
    for pod in cluster.pods:
        component = pod.labels["app.kubernetes.io/component"]
        for container, pid in pod.pids.items():
            name, usage = f"{component}/{container}", usage_of(pid)
            before = found.get(name)
            if before is not None:
                usage = Usage(*(max(getattr(before, key), getattr(usage, key)) for key in Usage.__dataclass_fields__))
            found[name] = usage
    return found


def usage_of(pid: int) -> Usage:
    """Returns what a process takes.

    Raises:
        ProcessLookupError: there is no such process.
    """
    folder = Path("/proc") / str(pid)
    rollup = _kib((folder / "smaps_rollup").read_text(encoding="utf-8"))
    times = psutil.Process(pid).cpu_times()
    return Usage(
        rss_mib=rollup["Rss"] / 1024,
        pss_mib=rollup["Pss"] / 1024,
        anonymous_mib=rollup["Anonymous"] / 1024,
        peak_mib=_kib((folder / "status").read_text(encoding="utf-8"))["VmHWM"] / 1024,
        cpu_s=times.user + times.system,
    )


def spent(before: Mapping[str, Usage], after: Mapping[str, Usage]) -> dict[str, float]:
    """Returns CPU seconds between two looks, by container."""
    return {name: after[name].cpu_s - before[name].cpu_s for name in after if name in before}


def _kib(text: str) -> dict[str, int]:
    """Returns the numbers of lines such as `Rss:   1234 kB`."""
    lines = (line.split() for line in text.splitlines())
    return {words[0].rstrip(":"): int(words[1]) for words in lines if len(words) == 3 and words[2] == "kB"}
