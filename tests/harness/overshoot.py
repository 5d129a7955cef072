"""Thousands of requests of which one in ten meets a fault, over the wire: how far past its deadline each ends.

    callers ─► Envoy ─► router ─► Envoy ─┬─► classifier
   (this process)                        ├─► cache ─► Redis
                                         └─► engines l1, l2: see tests/harness/faulty_engine.py

Each box is a process of its own, Envoy and Redis included; the control plane is in this one.
"""

from __future__ import annotations

import asyncio
import random
import time
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

import httpx
import yaml
from harness.control_plane import running_control_plane
from harness.envoy import KEY, mesh_config, running_envoy
from harness.faulty_engine import FAULTS
from harness.redis import RealRedis
from harness.scenario_load import Ask, Question, by_http, by_sdk
from harness.service import service_process
from tiermesh.client import AsyncClient

HARNESS = str(Path(__file__).resolve().parents[1])
DEADLINES_S = (0.3, 0.5, 1.0)
FAULTY_SHARE = 0.1
_HTTP_SHARE = 0.2
_TIERS = [
    {"name": name, "backend": "simulated", "model": name, "simulated_ttft_ms": 10, "simulated_tokens_per_second": 400}
    for name in ("l1", "l2")
]


@dataclass
class Overshoot:
    """What came of the requests."""

    over_ms: list[float] = field(default_factory=list)
    """Milliseconds from each request's deadline to its end; negative before it."""
    kinds: Counter[str] = field(default_factory=Counter)
    """How they ended, by whether they met a fault."""
    lost: Counter[str] = field(default_factory=Counter)
    """What was said of requests that were lost."""
    lag_ms: list[float] = field(default_factory=list)
    """How late the callers' own timers were."""

    def quantile_ms(self, share: float) -> float:
        """Returns a quantile of the overshoot, no less than 0."""
        return max(0.0, sorted(self.over_ms)[min(len(self.over_ms) - 1, int(len(self.over_ms) * share))])

    def late(self) -> int:
        """Number of requests that ended past their deadline at all."""
        return sum(over > 0 for over in self.over_ms)


@asynccontextmanager
async def faulty_mesh(folder: Path) -> AsyncIterator[tuple[str, str]]:
    """Starts the processes; yields the ingress as a gRPC target and as a URL."""
    redis = RealRedis()
    config = mesh_config(
        folder,
        tiers=_TIERS,
        cache={"redis_url": redis.url},
        rules=str(Path(HARNESS).parent / "mesh" / "profiles" / "rules.yaml"),
        tracing={"sample_ratio": 0.0},
    )
    text = yaml.safe_dump(config.model_dump(mode="json"), allow_unicode=True)
    environ = {"PYTHONPATH": HARNESS, "TIERMESH__LOGGING__LEVEL": "error", "ACME_KEY": KEY}
    # Into a file: a pipe that nobody reads would fill, and hold its writer up.
    log = folder / "services.log"
    async with AsyncExitStack() as stack:
        redis.start()
        stack.callback(redis.kill)
        for package in ("classifier", "cache", "router"):
            await stack.enter_async_context(service_process(package, folder, text, environ=environ, log=log))
        for tier in _TIERS:
            engine = service_process(
                "harness.faulty_engine", folder, text, "--tier", tier["name"], environ=environ, log=log
            )
            await stack.enter_async_context(engine)
        await stack.enter_async_context(running_control_plane(config))
        envoy = await stack.enter_async_context(running_envoy(config, folder))
        for cluster in ("router", "classifier", "cache", "engine-l1", "engine-l2"):
            await envoy.healthy(cluster, within_s=60.0)
        yield f"127.0.0.1:{config.network.ingress_port}", envoy.url


async def measure_overshoot(folder: Path, *, requests: int, at_once: int = 12) -> Overshoot:
    """Sends the requests, so many at once, four in five with the SDK and the others with plain HTTP."""
    result, chance = Overshoot(), random.Random(17)
    async with (
        faulty_mesh(folder) as (target, url),
        AsyncClient(target, api_key=KEY) as sdk,
        httpx.AsyncClient(base_url=url, headers={"authorization": f"Bearer {KEY}"}, timeout=30) as http,
    ):
        with_sdk, with_http = by_sdk(sdk), by_http(http, door_may_be_silent=False)
        await with_sdk(Question("tier:l1", "warm up", frozenset()))
        numbers = iter(range(requests))

        async def caller() -> None:
            for number in numbers:
                fault = chance.choice(tuple(FAULTS)) if chance.random() < FAULTY_SHARE else ""
                await _one(result, with_http if chance.random() < _HTTP_SHARE else with_sdk, number, fault, chance)

        async with asyncio.TaskGroup() as group:
            callers = [group.create_task(caller()) for _ in range(at_once)]
            lag = group.create_task(_watch_lag(result))
            await asyncio.wait(callers)
            lag.cancel()
    return result


async def _one(result: Overshoot, ask: Ask, number: int, fault: str, chance: random.Random) -> None:
    deadline_s = chance.choice(DEADLINES_S)
    model = chance.choice(("auto", "tier:l1", "tier:l2"))
    text = f"Tell me about fault:{fault} {number}" if fault else f"Tell me about the number {number}"
    began = time.monotonic()
    ending = await ask(Question(model, text, frozenset(), deadline_s=deadline_s))
    result.over_ms.append((time.monotonic() - began - deadline_s) * 1000)
    # What the answer says is not looked at here.
    kind = "answered" if ending.how == "answered" else ending.kind
    if kind in ("lost", "wrong"):
        result.lost[ending.detail] += 1
    result.kinds[f"{kind} ({fault})" if fault else kind] += 1


async def _watch_lag(result: Overshoot) -> None:
    while True:
        due = time.monotonic() + 0.01
        await asyncio.sleep(0.01)
        result.lag_ms.append((time.monotonic() - due) * 1000)
