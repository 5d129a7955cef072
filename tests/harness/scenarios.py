"""Faults done to a running mesh under steady load, and what came of every request.

A scenario is written once: what is done (`FAULTS`) to which process (`TARGETS`). `run_scenario` sends requests
through the SDK and through plain HTTP all the while, and waits until the mesh has recovered unaided.
"""

from __future__ import annotations

import asyncio
import itertools
import json
import socket
import time
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Container, Iterable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

import grpc
import httpx
import psutil
from grpc_health.v1 import health_pb2, health_pb2_grpc
from harness.mesh import Mesh
from tiermesh.client import AsyncClient, TiermeshError
from tiermesh.engine.adapters.simulated_text import write_script
from tiermesh.engine.ports import Prompt, Sampling, Turn
from tiermesh.shared.endpoints import cluster_endpoints
from tiermesh.shared.errors import ERROR_TABLE

SETTINGS = {
    "router": {"replicas": 2},
    "tiers": [
        {"name": "l1", "replicas": 2, "simulated_ttft_ms": 20, "simulated_tokens_per_second": 200},
        {"name": "l2", "simulated_ttft_ms": 60, "simulated_tokens_per_second": 100},
    ],
}
"""A mesh with two of what a kill must not interrupt, and answers of 0.15 to 0.4 s, so that faults hit some midway."""
DEADLINE_S = 1.5
HANG_S = 2.5
"""Longer than the deadline, so that requests sent to a process that hangs run into theirs."""
WARM_S = 0.6
PAUSE_S = 0.03
GIVE_UP_S = 0.25
"""How long after its deadline an HTTP caller stops waiting for a mesh that says nothing."""
RECOVERY_LIMIT_S = 20.0
"""A process of Python starts in 1 to 5 s on two cores that others use too."""
MAX_TOKENS = 24
_STALLED_RUNS = 2
# What gRPC and httpx say of a connection that broke under a request; everything else is a status of the mesh.
_CUT = ("Socket closed", "Connection reset", "recvmsg", "RST_STREAM", "Stream removed", "GOAWAY", "without its last")
_UNREACHED = "failed to connect to all addresses"


@dataclass(frozen=True)
class Target:
    """A process of the mesh: how to find it, and where Envoy shows that it is back."""

    name: str
    cluster: str = ""
    replica: int = 0
    word: str = ""
    """An argument of its command line, for processes that no cluster names."""

    def find(self, mesh: Mesh) -> psutil.Process:
        """Returns its process.

        Raises:
            LookupError: it is not running.
        """
        if self.cluster:
            return _process(mesh, str(cluster_endpoints(mesh.config, self.cluster)[self.replica]))
        return _process(mesh, self.word)


TARGETS = (
    Target("engine-l0", "engine-l0"),
    Target("engine-l1 (one of two)", "engine-l1"),
    Target("engine-l2", "engine-l2"),
    Target("router (one of two)", "router"),
    Target("classifier", "classifier"),
    Target("cache", "cache"),
    Target("redis", word="redis-server"),
    Target("traces", word="tiermesh.traces"),
    Target("control plane", word="tiermesh.mesh"),
    Target("envoy", word="--disable-hot-restart"),
)


def _process(mesh: Mesh, word: str) -> psutil.Process:
    for process in mesh.processes():
        line = process.cmdline()
        # Redis writes its title over its arguments.
        if word in line or (word == "redis-server" and any(word in part for part in line)):
            return process
    raise LookupError(f"no process with argument {word}")


async def kill(process: psutil.Process) -> None:
    """Kills it with SIGKILL."""
    process.kill()


async def hang(process: psutil.Process) -> None:
    """Stops it for `HANG_S` seconds, then lets it go on."""
    process.suspend()
    try:
        await asyncio.sleep(HANG_S)
    finally:
        process.resume()


async def slow(process: psutil.Process) -> None:
    """Gives it a tenth of the time, in slices of 20 ms, for `HANG_S` seconds."""
    until = time.monotonic() + HANG_S
    while time.monotonic() < until:
        process.suspend()
        try:
            await asyncio.sleep(0.018)
        finally:
            process.resume()
        await asyncio.sleep(0.002)


Fault = Callable[[psutil.Process], Awaitable[None]]
FAULTS: dict[str, Fault] = {"kill": kill, "hang": hang, "slow": slow}


@dataclass
class Outcome:
    """What came of one request."""

    kind: str
    """`right`, `refused`, `wrong`, `lost`, `cut` (the connection broke) or `unreached` (nobody was listening)."""
    detail: str
    began: float
    overshoot_ms: float


@dataclass
class Report:
    """What came of all requests of one scenario."""

    name: str
    envoy: bool
    """Whether it was Envoy that the fault was done to."""
    outcomes: list[Outcome] = field(default_factory=list)
    recovery_s: float | None = None
    """From the beginning of the fault (for a kill) or its end until the process served again; None if it did not."""
    client_lag_ms: float = 0.0
    """How late this machine woke the clients' own timers at worst: what of the overshoot may be the machine's."""

    def count(self, kind: str) -> int:
        """Number of requests that ended this way."""
        return sum(outcome.kind == kind for outcome in self.outcomes)

    stalled_runs: int = 0
    """Earlier runs that were put aside because the machine had stalled the callers; see `run_scenario`."""

    @property
    def sent(self) -> int:
        """Number of requests."""
        return len(self.outcomes)

    @property
    def lost(self) -> int:
        """Requests without an end, those whose connection broke included unless Envoy itself was hit."""
        return self.count("lost") + (0 if self.envoy else self.count("cut") + self.count("unreached"))

    @property
    def cut(self) -> int:
        """Requests whose connection broke because Envoy itself was hit."""
        return self.count("cut") if self.envoy else 0

    @property
    def unreached(self) -> int:
        """Requests that found nobody listening because Envoy itself was hit; the SDK calls this UNAVAILABLE."""
        return self.count("unreached") if self.envoy else 0

    @property
    def overshoot_ms(self) -> float:
        """How long after its deadline the last request ended; those that Envoy could not end any more do not count."""
        uncounted = ("cut", "unreached") if self.envoy else ()
        return max([0.0, *(o.overshoot_ms for o in self.outcomes if o.kind not in uncounted)])

    @property
    def reasons(self) -> dict[str, int]:
        """Reasons of refusals and their counts."""
        return dict(Counter(o.detail.split(":")[0] for o in self.outcomes if o.kind == "refused"))

    def failures(self) -> list[str]:
        """What was said about requests that ended in none of the ways allowed."""
        bad = ("wrong", "lost") if self.envoy else ("wrong", "lost", "cut", "unreached")
        return [f"{o.kind} {o.detail}" for o in self.outcomes if o.kind in bad]

    def row(self) -> dict[str, object]:
        """The scenario as one row of figures."""
        return {
            "name": self.name,
            "cluster": "lite, simulated engines, one machine",
            "sent": self.sent,
            "right": self.count("right"),
            "refused": self.count("refused"),
            "wrong": self.count("wrong"),
            "lost": self.lost,
            "cut_with_envoy": self.cut,
            "unreached": self.unreached,
            "worst_overshoot_ms": round(self.overshoot_ms, 1),
            "client_lag_ms": round(self.client_lag_ms, 1),
            "recovery_s": None if self.recovery_s is None else round(self.recovery_s, 2),
            "stalled_runs": self.stalled_runs,
            "reasons": self.reasons,
        }


@dataclass(frozen=True)
class _Question:
    model: str
    text: str
    answers: frozenset[str] | None
    cache: bool = False


class Load:
    """Six callers, four of the SDK and two of plain HTTP, each with one request in flight."""

    def __init__(self, mesh: Mesh, report: Report, greeting: str) -> None:
        self._mesh = mesh
        self._report = report
        self._greeting = greeting
        self._numbers = itertools.count(time.monotonic_ns())

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Keeps the requests coming; leaving waits for those in flight."""
        stop = asyncio.Event()
        async with (
            AsyncClient(self._mesh.target, api_key=self._mesh.key) as sdk,
            httpx.AsyncClient(
                base_url=self._mesh.url, headers={"authorization": f"Bearer {self._mesh.key}"}, timeout=10
            ) as http,
            asyncio.TaskGroup() as group,
        ):

            async def caller(ask: Callable[[_Question], Awaitable[tuple[str, str]]], plan: tuple[str, ...]) -> None:
                for kind in itertools.cycle(plan):
                    if stop.is_set():
                        return
                    await self._one(ask, self._question(kind))
                    await asyncio.sleep(PAUSE_S)

            def by_sdk(question: _Question) -> Awaitable[tuple[str, str]]:
                return _ask_sdk(sdk, question)

            def by_http(question: _Question) -> Awaitable[tuple[str, str]]:
                return _ask_http(http, question)

            for plan in (("l1",), ("l1", "auto"), ("l2",), ("hello", "auto", "cached")):
                group.create_task(caller(by_sdk, plan))
            for plan in (("l1", "hello", "cached"), ("l2", "auto")):
                group.create_task(caller(by_http, plan))
            lag = group.create_task(self._lag())
            try:
                yield
            finally:
                stop.set()
                lag.cancel()

    async def _one(self, ask: Callable[[_Question], Awaitable[tuple[str, str]]], question: _Question) -> None:
        began = time.monotonic()
        kind, detail = await ask(question)
        over = (time.monotonic() - began - DEADLINE_S) * 1000
        self._report.outcomes.append(Outcome(kind, f"{detail} [{question.model}]", began, over))

    async def _lag(self) -> None:
        while True:
            due = time.monotonic() + 0.01
            await asyncio.sleep(0.01)
            self._report.client_lag_ms = max(self._report.client_lag_ms, (time.monotonic() - due) * 1000)

    def _question(self, kind: str) -> _Question:
        number = next(self._numbers)
        match kind:
            case "hello":
                return _Question("auto", "Hello", self._answers("Hello") | {self._greeting}, cache=False)
            case "cached":
                text = f"Tell me about the river {number % 5}."
                return _Question("auto", text, self._answers(text), cache=True)
            case "auto":
                text = f"写一个Python函数，计算{number}的阶乘" if number % 2 else f"Tell me about the number {number}."
                return _Question("auto", text, self._answers(text))
        text = f"Tell me about the number {number}."
        return _Question(f"tier:{kind}", text, self._answers(text))

    def _answers(self, text: str) -> frozenset[str]:
        prompt, sampling = Prompt((Turn("user", text),), 0), Sampling(max_tokens=MAX_TOKENS, temperature=0.0)
        models = [tier.public_model for tier in self._mesh.config.tiers if tier.backend == "simulated"]
        return frozenset("".join(write_script(prompt, sampling, 0, model=model).tokens) for model in models)


async def _ask_sdk(client: AsyncClient, question: _Question) -> tuple[str, str]:
    try:
        answer = await client.ask(
            question.text,
            model=question.model,
            cache=question.cache,
            deadline_s=DEADLINE_S,
            max_tokens=MAX_TOKENS,
            temperature=0.0,
        )
    except TiermeshError as error:
        said = f"{error.reason}: sdk: {error.message}"
        # The mesh passes on what its own Envoy's death looked like from inside; those words come with a tier's name.
        if error.message.startswith(_UNREACHED):
            return "unreached", said
        if _is_cut(error):
            return "cut", said
        return _told(error.reason), said
    return _judge(answer.text, question)


def _told(reason: str | None) -> str:
    """Whether an error says what the caller can make of it; a defect of ours is not that."""
    return "refused" if reason in ERROR_TABLE and reason != "INTERNAL" else "lost"


def _is_cut(error: TiermeshError) -> bool:
    """Whether the client library found the connection broken, rather than the mesh saying what failed."""
    if error.reason not in ("INTERNAL", "UNAVAILABLE", "STREAM_BROKEN") or "broke off" in error.message:
        return False
    return any(words in error.message for words in _CUT)


async def _ask_http(client: httpx.AsyncClient, question: _Question) -> tuple[str, str]:
    body = {
        "model": question.model,
        "messages": [{"role": "user", "content": question.text}],
        "max_tokens": MAX_TOKENS,
        "temperature": 0,
        "stream": True,
    }
    headers = {"grpc-timeout": f"{int(DEADLINE_S * 1000)}m"}
    if not question.cache:
        headers["cache-control"] = "no-store"
    began = time.monotonic()
    try:
        async with (
            asyncio.timeout(DEADLINE_S + GIVE_UP_S),
            client.stream("POST", "/v1/chat/completions", json=body, headers=headers) as response,
        ):
            if response.status_code != 200:
                error = json.loads(await response.aread())["error"]
                said = f"{error.get('code')}: http {response.status_code}: {error.get('message')}"
                return _told(error.get("code")), said
            text = ""
            async for line in response.aiter_lines():
                data = line.removeprefix("data: ")
                if data == "[DONE]":
                    return _judge(text, question)
                if not data:
                    continue
                event = json.loads(data)
                if "error" in event:
                    error = event["error"]
                    return _told(error.get("code")), f"{error.get('code')}: http event: {error.get('message')}"
                text += "".join(choice["delta"].get("content") or "" for choice in event["choices"])
            return "lost", f"http: stream ended without its last event after {time.monotonic() - began:.2f} s"
    except TimeoutError:
        return "cut", "http: the caller gave up on a silent mesh"
    except httpx.ConnectError as error:
        return "unreached", f"http: {error}"
    except httpx.TransportError as error:
        return "cut", f"http: {type(error).__name__}: {error} after {time.monotonic() - began:.2f} s"


def _judge(text: str, question: _Question) -> tuple[str, str]:
    if question.answers is None or text in question.answers:
        return "right", ""
    return "wrong", f"{question.text!r} got {text!r}"


async def run_scenario(mesh: Mesh, target: Target, fault: str) -> Report:
    """Does a fault to a process under load and waits until the mesh has recovered.

    A caller that was not run for longer than it waits for a silent mesh cannot tell whose silence it was. Such a run,
    known by the callers' timers and not by what came of it, is put aside and counted, at most twice.

    Returns:
        The report; its `recovery_s` is None where the mesh has not recovered within `RECOVERY_LIMIT_S`.
    """
    report = await _run_once(mesh, target, fault)
    stalled = 0
    while report.client_lag_ms > GIVE_UP_S * 1000 and stalled < _STALLED_RUNS:
        stalled += 1
        report = await _run_once(mesh, target, fault)
    report.stalled_runs = stalled
    return report


async def _run_once(mesh: Mesh, target: Target, fault: str) -> Report:
    report = Report(f"{fault} {target.name}", envoy=target.name == "envoy")
    async with AsyncClient(mesh.target, api_key=mesh.key) as client:
        # By name, as another tier may answer it while L0 is busy.
        greeting = (await client.ask("Hello", model="tier:l0", cache=False, deadline_s=10)).text
    async with Load(mesh, report, greeting).running():
        await asyncio.sleep(WARM_S)
        victim = target.find(mesh)
        # Kept, as the process table may have given the number to another process when it is compared.
        began = victim.create_time()
        await FAULTS[fault](victim)
        since = time.monotonic()
        try:
            async with asyncio.timeout(RECOVERY_LIMIT_S):
                await back(mesh, [target], {began} if fault == "kill" else ())
                served = time.monotonic()
                # Everything sent from now on has to be answered: two answers of each caller at least.
                await _until(lambda: _right_since(report, served) >= 18)
                report.recovery_s = served - since
        except TimeoutError:
            pass
    return report


async def back(mesh: Mesh, targets: Iterable[Target], gone: Container[float]) -> None:
    """Waits until processes that were killed have been started again and serve.

    Args:
        mesh: The mesh.
        targets: Which processes.
        gone: When those that were killed had been created.

    Raises:
        TimeoutError: they have not within `RECOVERY_LIMIT_S`.
    """
    async with asyncio.timeout(RECOVERY_LIMIT_S):
        for target in targets:
            await _until(lambda target=target: target.find(mesh).create_time() not in gone)
            await _until(lambda target=target: _serves(mesh, target))


def _right_since(report: Report, moment: float) -> int:
    """Length of the run of right answers with which the outcomes end, of requests sent after `moment`."""
    run = 0
    for outcome in reversed(report.outcomes):
        if outcome.began < moment:
            continue
        if outcome.kind != "right":
            break
        run += 1
    return run


async def _until(condition: Callable[[], bool]) -> None:
    while True:
        try:
            if await asyncio.to_thread(condition):
                return
        except (LookupError, OSError, grpc.RpcError, httpx.HTTPError, psutil.Error):
            pass
        await asyncio.sleep(0.1)


def _serves(mesh: Mesh, target: Target) -> bool:
    """Whether the process itself answers, and Envoy, where it sends requests to it, knows."""
    network = mesh.config.network
    if not target.cluster:
        ports = {
            "redis": network.redis_port,
            "traces": network.traces_port,
            "control plane": network.xds_port,
            "envoy": network.ingress_port,
        }
        with socket.create_connection((network.bind, ports[target.name]), timeout=1):
            return True
    endpoint = cluster_endpoints(mesh.config, target.cluster)[target.replica]
    with grpc.insecure_channel(str(endpoint)) as channel:
        health = health_pb2_grpc.HealthStub(channel).Check(health_pb2.HealthCheckRequest(), timeout=1)
    if health.status != health_pb2.HealthCheckResponse.SERVING:
        return False
    admin = f"http://127.0.0.1:{network.admin_port}/clusters?format=json"
    for status in httpx.get(admin, timeout=1).json()["cluster_statuses"]:
        for host in status.get("host_statuses", []) if status["name"] == target.cluster else []:
            state = host["health_status"]
            if host["address"]["socket_address"]["port_value"] == endpoint.port:
                return state.get("eds_health_status") == "HEALTHY" and not (
                    state.get("failed_active_health_check") or state.get("failed_outlier_check")
                )
    return False
