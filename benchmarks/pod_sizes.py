"""What each container of the chart takes: memory idle, under load and at the most, CPU for a request.

    make bench-pods
    python benchmarks/pod_sizes.py --seconds 60 --questions 100000

Runs the chart's pods on this machine, from built images, as `make test-pods` does: needs root, Buildah, iproute2, dnsmasq
and `make images ARGS="--builder buildah"`; for the semantic tier the image
`cache-semantic` too. One replica of each; the simulated tiers answer at once, with 64 tokens. CPU is told for a request, not
for a second, so that what else the machine does counts little. Writes benchmarks/out/pods.json.
"""

from __future__ import annotations

import argparse
import asyncio
import itertools
import json
import signal
import sys
import tempfile
from dataclasses import asdict
from pathlib import Path
from typing import Any

import grpc
from rich.console import Console
from rich.table import Table

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "tests"))

from harness.eventually import eventually  # noqa: E402 -- the harness is not installed
from harness.helm import render  # noqa: E402
from harness.pods.cluster import PodCluster, running_pods  # noqa: E402
from pods.load import Load, send  # noqa: E402 -- beside this file
from pods.questions import remember, until_remembered  # noqa: E402
from pods.usage import Usage, container_usages, spent  # noqa: E402
from tiermesh.api.cache.v1 import cache_pb2_grpc  # noqa: E402

OUT = ROOT / "benchmarks" / "out" / "pods.json"
_AT_ONCE = {"simulated_ttft_ms": 0, "simulated_tokens_per_second": 1_000_000, "slots": 64, "queue": 256}
_TIERS = [
    {
        "name": "l0",
        "config": {"backend": "rules", "model": "rules", "max_complexity": 0.1, "task_types": ["greeting", "faq"]},
    },
    {
        "name": "l1",
        "config": {"backend": "simulated", "model": "small", "max_complexity": 0.5, "context_tokens": 4096}
        | {"answer_tokens": 256, "excluded_task_types": ["code"]}
        | _AT_ONCE,
    },
    {
        "name": "l2",
        "config": {"backend": "simulated", "model": "large", "context_tokens": 8192, "answer_tokens": 512} | _AT_ONCE,
    },
]
_SETTLED_S = 5


def values(*, semantic: bool) -> dict[str, Any]:
    """Returns values of a release of one replica each."""
    return {
        "tiers": _TIERS,
        "config": {"outcomes": {"enabled": True}, "cache": {"semantic_enabled": semantic}},
        **{name: {"replicas": 1} for name in ("router", "classifier", "cache", "controlPlane", "ingress")},
    }


async def measure(cluster: PodCluster, *, seconds: float, in_flight: int) -> dict[str, Any]:
    """Measures a release idle and under load."""
    (door,) = cluster.of("ingress")
    numbers = itertools.count()
    await asyncio.sleep(_SETTLED_S)
    idle = container_usages(cluster)
    await asyncio.sleep(seconds / 3)
    resting = spent(idle, container_usages(cluster))
    # What happens once only, such as connections, is not what a request costs.
    await send(f"{door.address}:8080", seconds=_SETTLED_S, in_flight=in_flight, numbers=numbers)
    before = container_usages(cluster)
    load = await send(f"{door.address}:8080", seconds=seconds, in_flight=in_flight, numbers=numbers)
    after = container_usages(cluster)
    return {
        "load": {"requests": load.requests, "seconds": round(load.seconds, 1), "answers": dict(load.answers)},
        "containers": {
            name: _row(idle[name], after[name], resting[name] / (seconds / 3), cpu_s, load)
            for name, cpu_s in spent(before, after).items()
        },
    }


def _row(idle: Usage, after: Usage, resting: float, cpu_s: float, load: Load) -> dict[str, float]:
    found = {
        "idle_rss_mib": idle.rss_mib,
        "idle_pss_mib": idle.pss_mib,
        "idle_anonymous_mib": idle.anonymous_mib,
        "load_rss_mib": after.rss_mib,
        "load_anonymous_mib": after.anonymous_mib,
        "peak_mib": after.peak_mib,
        "idle_cpu_m": resting * 1000,
    }
    return {name: round(value, 1) for name, value in found.items()} | {
        "cpu_ms_per_request": round(cpu_s * 1000 / load.requests, 3)
    }


async def measure_questions(cluster: PodCluster, count: int) -> dict[str, Any]:
    """Measures a cache that remembers questions: as they come, and after a start with all of them there."""
    (cache,), (redis,) = cluster.of("cache"), cluster.of("redis")
    used = await remember(f"redis://{redis.address}:6379/0", count)
    found: dict[str, Any] = {"questions": count, "redis_used_mib": round(used, 1)}
    async with grpc.aio.insecure_channel(f"{cache.address}:8081") as channel:
        stub = cache_pb2_grpc.CacheServiceStub(channel)
        await until_remembered(stub)
        found["as they came"] = asdict(container_usages(cluster)["cache/cache"])
        old = cache.pids["cache"]
        cache.kill("cache")
        await eventually(lambda: asyncio.sleep(0.1, cache.pids.get("cache") not in {None, old}))
        await until_remembered(stub)
        found["started with all"] = asdict(container_usages(cluster)["cache/cache"])
        found["redis"] = asdict(container_usages(cluster)["redis/redis"])
    return found


async def run(folder: Path, *, seconds: float, in_flight: int, questions: int, releases: list[str]) -> dict[str, Any]:
    """Runs releases, one after another; returns all figures."""
    found: dict[str, Any] = {}
    for name, semantic in (("exact", False), ("semantic", True)):
        if name not in releases:
            continue
        (folder / name).mkdir()
        async with running_pods(render(values(semantic=semantic)), folder / name) as cluster:
            found[name] = await measure(cluster, seconds=seconds, in_flight=in_flight)
            show(name, found[name])
            if semantic and questions:
                found["questions"] = await measure_questions(cluster, questions)
    return found


def show(release: str, found: dict[str, Any]) -> None:
    """Prints the table of a release."""
    load = found["load"]
    table = Table(title=f"{release} answers: {load['requests']} requests in {load['seconds']} s: {load['answers']}")
    columns = ("idle MiB", "anonymous", "under load MiB", "peak MiB", "idle CPU m", "CPU ms a request")
    for column in ("container", *columns):
        table.add_column(column, justify="left" if column == "container" else "right")
    keys = ("idle_rss_mib", "idle_anonymous_mib", "load_rss_mib", "peak_mib", "idle_cpu_m", "cpu_ms_per_request")
    for name, row in found["containers"].items():
        table.add_row(name, *(f"{row[key]:.2f}" if key.startswith("cpu") else f"{row[key]:.0f}" for key in keys))
    Console(width=120).print(table)


def main() -> int:
    """Runs both releases and writes the figures."""
    summary, _, examples = (__doc__ or "").partition("\n")
    parser = argparse.ArgumentParser(
        description=summary, epilog=examples, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--seconds", type=float, default=30, help="how long to send requests (default: 30)")
    parser.add_argument("--in-flight", type=int, default=16, help="requests at a time (default: 16)")
    parser.add_argument("--only", choices=("exact", "semantic"), help="one release; figures of the other are kept")
    parser.add_argument("--questions", type=int, default=100_000, help="that the semantic tier is to remember")
    arguments = parser.parse_args()
    # Whoever stops this wants its pods gone, too.
    signal.signal(signal.SIGTERM, lambda *_: signal.raise_signal(signal.SIGINT))
    with tempfile.TemporaryDirectory() as folder:
        found = asyncio.run(
            run(
                Path(folder),
                seconds=arguments.seconds,
                in_flight=arguments.in_flight,
                questions=arguments.questions,
                releases=[arguments.only] if arguments.only else ["exact", "semantic"],
            )
        )
    if "questions" in found:
        Console(width=120).print_json(data=found["questions"])
    OUT.parent.mkdir(exist_ok=True)
    if arguments.only and OUT.exists():
        found = json.loads(OUT.read_text(encoding="utf-8")) | found
    OUT.write_text(json.dumps(found, indent=2) + "\n", encoding="utf-8")
    print(f"written: {OUT.relative_to(ROOT)}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
