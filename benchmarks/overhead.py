"""What the mesh adds to a request: latency and throughput against calling the engine directly.

    make bench-overhead
    python benchmarks/overhead.py --rounds 3 --requests 600

Starts a whole mesh of its own whose L1 is the simulated backend with no delay, so that what is
measured is the mesh. Three paths are measured in turn, in every round, by the same gRPC client:

    direct       client -> engine
    envoy_only   client -> Envoy's mesh listener -> engine
    mesh         client -> Envoy ingress -> router -> (cache, classifier) -> engine, then to the cache

Every prompt is new, so `mesh` always misses the cache and does all of its work, unless a call of the cache or of the
classifier is late, which is counted; answers have one
token and are complete, so that what is measured is a request, not a stream, and each is kept. The
figures are medians over the rounds.

The second table says where the time goes: CPU milliseconds that each process spends on a request of
the whole mesh, with one and with 32 in flight. Writes benchmarks/out/overhead.json.
"""

from __future__ import annotations

import argparse
import asyncio
import itertools
import json
import platform
import secrets
import statistics
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Awaitable, Callable
from pathlib import Path

import grpc
import uvloop
from rich.console import Console
from rich.progress import Progress
from rich.table import Table

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "tests"))

from harness.mesh import Mesh, running_mesh  # noqa: E402 -- the harness is not installed
from process_cpu import CLIENT, ProcessCpu, per_request_ms  # noqa: E402 -- beside this file
from tiermesh.api.common.v1 import answer_pb2, chat_pb2  # noqa: E402
from tiermesh.api.engine.v1 import engine_pb2, engine_pb2_grpc  # noqa: E402
from tiermesh.api.router.v1 import router_pb2, router_pb2_grpc  # noqa: E402
from tiermesh.shared.endpoints import mesh_target, replica_endpoint  # noqa: E402

OUT = ROOT / "benchmarks" / "out" / "overhead.json"
INSTANT = {
    # Answers of one token from an engine that takes no time: there is nothing to judge.
    "escalation": {"enabled": False},
    "tiers": [
        {
            "name": "l1",
            "simulated_ttft_ms": 0,
            "simulated_tokens_per_second": 1_000_000,
            "slots": 256,
            "queue": 1024,
        }
    ],
}
SAMPLING = chat_pb2.Sampling(max_tokens=1, stop=["s"])
"""The simulated engine's text begins with `[simulated`: one token, and an answer that has ended by itself."""
Call = Callable[[int], Awaitable[None]]


_QUALITIES = [
    "old",
    "new",
    "small",
    "large",
    "quiet",
    "loud",
    "warm",
    "cold",
    "dry",
    "wet",
    "light",
    "dark",
    "calm",
    "wild",
    "soft",
    "hard",
    "sweet",
    "plain",
    "rare",
    "common",
]
_THINGS = [
    "rivers",
    "trees",
    "birds",
    "clouds",
    "houses",
    "boats",
    "gardens",
    "bridges",
    "stones",
    "lamps",
    "roads",
    "fields",
    "towns",
    "letters",
    "songs",
]


def _messages(n: int) -> list[chat_pb2.Message]:
    """Returns the `n`th of 90,000 ordinary prompts that differ in their words."""
    words = []
    for choices in (_QUALITIES, _THINGS, _QUALITIES, _THINGS):
        n, index = divmod(n, len(choices))
        words.append(choices[index])
    text = "Tell me something about {} {} and {} {}.".format(*words)
    return [chat_pb2.Message(role=chat_pb2.ROLE_USER, content=text)]


def engine_call(channel: grpc.aio.Channel) -> Call:
    """Returns a call of the engine over `channel`."""
    stub = engine_pb2_grpc.EngineServiceStub(channel)

    async def call(n: int) -> None:
        request = engine_pb2.GenerateRequest(
            request_id=str(n), tenant="local", messages=_messages(n), sampling=SAMPLING
        )
        last = None
        async for response in stub.Generate(request, timeout=30):
            last = response
        if last is None or last.WhichOneof("event") != "done":
            raise RuntimeError(f"the engine's answer did not end in done: {last}")

    return call


def router_call(
    channel: grpc.aio.Channel, metadata: tuple[tuple[str, str], ...], labels: Counter[str] | None = None
) -> Call:
    """Returns a call of the whole mesh over `channel`; `labels` counts what was skipped because it was late."""
    stub = router_pb2_grpc.RouterServiceStub(channel)

    async def call(n: int) -> None:
        request = router_pb2.GenerateRequest(model="auto", messages=_messages(n), sampling=SAMPLING)
        last = None
        async for response in stub.Generate(request, timeout=30, metadata=metadata):
            if last is None and response.route.tier != "l1":
                raise RuntimeError(f"the instant engine is L1, but the request went to {response.route.tier}")
            if last is None and labels is not None:
                labels["requests"] += 1
                labels["not looked up"] += response.route.cache_status == router_pb2.CACHE_STATUS_UNAVAILABLE
                labels["not classified"] += response.route.classifier_source == "unavailable"
            last = response
        if last is None or last.WhichOneof("event") != "done":
            raise RuntimeError(f"the mesh's answer did not end in done: {last}")
        if last.done.finishes[0].finish_reason != answer_pb2.FINISH_REASON_STOP:
            raise RuntimeError(f"the answer was cut, and would not be kept: {last}")

    return call


async def measure(
    call: Call, numbers: itertools.count[int], *, in_flight: int, requests: int
) -> tuple[list[float], float]:
    """Makes `requests` calls with `in_flight` at a time.

    Returns:
        Latency of each call in milliseconds, and calls per second over all.
    """
    latencies: list[float] = []
    left = iter(range(requests))

    async def worker() -> None:
        for _ in left:
            begun = time.perf_counter()
            await call(next(numbers))
            latencies.append((time.perf_counter() - begun) * 1000)

    begun = time.perf_counter()
    await asyncio.gather(*(worker() for _ in range(in_flight)))
    return latencies, requests / (time.perf_counter() - begun)


def percentile(values: list[float], share: float) -> float:
    """Returns the value below which `share` of the values lie (nearest rank)."""
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))]


async def run(
    mesh: Mesh, rounds: int, requests: int, progress: Progress
) -> tuple[dict[str, dict[str, float]], dict[str, dict[str, float]]]:
    """Measures the three paths.

    Returns:
        Medians over the rounds by path, with the shares of requests of the whole mesh that were not looked up or not
        classified because that was late (`late_share`); and CPU of the whole mesh by `in_flight_1` and `in_flight_32`:
        milliseconds a request by process, means over all rounds.
    """
    engine = str(replica_endpoint(mesh.config, "engine-l1", 0))
    through_envoy = (("grpc.default_authority", "engine-l1"),)
    async with (
        grpc.aio.insecure_channel(engine) as direct,
        grpc.aio.insecure_channel(mesh_target(mesh.config), options=through_envoy) as envoy,
        grpc.aio.insecure_channel(mesh.target) as ingress,
    ):
        labels = Counter[str]()
        calls = {
            "direct": engine_call(direct),
            "envoy_only": engine_call(envoy),
            "mesh": router_call(ingress, mesh.metadata, labels),
        }
        numbers = itertools.count(secrets.randbelow(90_000))
        seen: dict[str, list[dict[str, float]]] = {name: [] for name in calls}
        cpu, spent = ProcessCpu(mesh), {"in_flight_1": Counter[str](), "in_flight_32": Counter[str]()}
        task = progress.add_task("measuring", total=rounds * len(calls))
        for call in calls.values():
            await measure(call, numbers, in_flight=8, requests=100)
        for _ in range(rounds):
            for name, call in calls.items():
                progress.update(task, description=f"measuring {name}")
                begun = cpu.seconds()
                alone, _ = await measure(call, numbers, in_flight=1, requests=requests // 2)
                between = cpu.seconds()
                loaded, rate = await measure(call, numbers, in_flight=32, requests=requests * 2)
                if name == "mesh":
                    # Spans and records leave within a second of the requests that they tell of.
                    await asyncio.sleep(1)
                    spent["in_flight_1"].update(per_request_ms(begun, between, rounds * (requests // 2)))
                    spent["in_flight_32"].update(per_request_ms(between, cpu.seconds(), rounds * requests * 2))
                seen[name].append(
                    {
                        "p50_ms_1": percentile(alone, 0.5),
                        "p99_ms_1": percentile(alone, 0.99),
                        "rps_32": rate,
                        "p50_ms_32": percentile(loaded, 0.5),
                        "p99_ms_32": percentile(loaded, 0.99),
                    }
                )
                progress.advance(task)
    medians = {
        name: {key: round(statistics.median(r[key] for r in results), 3) for key in results[0]}
        for name, results in seen.items()
    }
    late = {what.replace(" ", "_"): labels[what] / labels["requests"] for what in ("not looked up", "not classified")}
    return {**medians, "late_share": late}, {name: dict(counted) for name, counted in spent.items()}


def make_cpu_table(cpu: dict[str, dict[str, float]]) -> Table:
    """Returns the table of CPU by process, the busiest under load first."""
    table = Table(title="CPU of the whole mesh, ms a request")
    for column in ("process", "1 in flight", "32 in flight"):
        table.add_column(column, justify="left" if column == "process" else "right")
    alone, loaded = cpu["in_flight_1"], cpu["in_flight_32"]
    for name in sorted(alone.keys() | loaded.keys(), key=lambda name: (name == CLIENT, -loaded.get(name, 0.0))):
        if name == CLIENT:
            rest = [sum(ms for process, ms in figures.items() if process != CLIENT) for figures in (alone, loaded)]
            table.add_row("the mesh together", *(f"{ms:.2f}" for ms in rest), style="bold")
        table.add_row(name, f"{alone.get(name, 0.0):.2f}", f"{loaded.get(name, 0.0):.2f}")
    return table


def main() -> int:
    """Runs the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=3, help="how often every path is measured (default: 3)")
    parser.add_argument(
        "--requests", type=int, default=600, help="half of it at 1 in flight, twice at 32 (default: 600)"
    )
    arguments = parser.parse_args()
    console = Console()
    with Progress(console=console, transient=True) as progress, tempfile.TemporaryDirectory() as folder:
        progress.add_task("starting a mesh", total=None)
        with running_mesh(Path(folder), "lite", INSTANT) as mesh:
            results, cpu = uvloop.run(run(mesh, arguments.rounds, arguments.requests, progress))
    table = Table(title=f"Overhead, medians of {arguments.rounds} rounds ({platform.machine()}, simulated engine)")
    for column in ("path", "p50 ms @1", "p99 ms @1", "req/s @32", "p50 ms @32", "p99 ms @32"):
        table.add_column(column, justify="left" if column == "path" else "right")
    late = results.pop("late_share")
    for name, row in results.items():
        table.add_row(name, *(f"{value:.2f}" for value in row.values()))
    console.print(table)
    console.print(make_cpu_table(cpu))
    console.print(
        f"Late, and so left out: {late['not_looked_up']:.1%} of the lookups, {late['not_classified']:.1%} of the"
        " classifications, over both loads. The more of them, the less of a request has been measured."
    )
    added = results["mesh"]["p50_ms_1"] - results["direct"]["p50_ms_1"]
    console.print(f"The mesh adds {added:.2f} ms to the median request at 1 in flight.")
    OUT.parent.mkdir(parents=True, exist_ok=True)
    OUT.write_text(json.dumps({**results, "late_share": late, "cpu_ms": cpu}, indent=2) + "\n", encoding="utf-8")
    console.print(f"written: {OUT.relative_to(ROOT)}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
