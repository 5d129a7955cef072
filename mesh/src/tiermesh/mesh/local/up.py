"""Starts the mesh and returns when it has answered."""

from __future__ import annotations

import asyncio
import fcntl
import json
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from pathlib import Path

from tiermesh.mesh.bootstrap import make_bootstrap
from tiermesh.mesh.local.display import Display, Row
from tiermesh.mesh.local.down import bring_down
from tiermesh.mesh.local.errors import LocalError
from tiermesh.mesh.local.health import Health, open_health_checker
from tiermesh.mesh.local.installation import ENGINE_PYTHON, Installation
from tiermesh.mesh.local.keys import ensure_keys
from tiermesh.mesh.local.layout import StateLayout
from tiermesh.mesh.local.log_files import tail_of
from tiermesh.mesh.local.orphans import OWNER, end_all, processes_of
from tiermesh.mesh.local.ports import check_ports
from tiermesh.mesh.local.probe import probe
from tiermesh.mesh.local.processes import ProcessSpec, plan_processes
from tiermesh.mesh.local.supervision import ProcessState, Supervisor, start_supervisor
from tiermesh.mesh.local.supervisor_conf import render_supervisor_conf
from tiermesh.shared.clock import SYSTEM_CLOCK
from tiermesh.shared.config import TiermeshConfig
from tiermesh.shared.endpoints import metrics_endpoint
from tiermesh.shared.local_mesh import LocalMesh, api_key

_TICK_S = 0.25
_MOST_STARTS = 3
"""A process that was started this often without serving will not serve."""
_PROBE_S = 60.0
_FOLDER = "make it a folder that you may write to, with some space, or name another with TIERMESH_STATE=FOLDER."


@dataclass(frozen=True, slots=True)
class Request:
    """What `tiermesh up` was asked for."""

    mesh: LocalMesh
    config: TiermeshConfig
    installation: Installation
    environ: Mapping[str, str]
    timeout_s: float

    @property
    def layout(self) -> StateLayout:
        """Its state folder."""
        return StateLayout(Path(self.mesh.state))

    def plan(self) -> tuple[ProcessSpec, ...]:
        """Returns the processes to run."""
        return plan_processes(
            self.config,
            config_path=Path(self.mesh.config_path),
            layout=self.layout,
            installation=self.installation,
            environ=self.environ,
        )


@asynccontextmanager
async def bring_up(request: Request, display: Display) -> AsyncIterator[bool]:
    """Starts the mesh; the body runs when every tier has answered a request.

    Yields whether it was running already. Whatever ends the start early, Ctrl-C included,
    stops everything that it had started.

    Raises:
        LocalError: the mesh cannot be started; nothing is left running.
    """
    layout, specs = request.layout, request.plan()
    _check_programs(request.config, request.installation)
    _make_state_folder(layout)
    with _locked(layout):
        supervisor = Supervisor(layout)
        already = await asyncio.to_thread(supervisor.is_alive)
        if not already:
            await asyncio.to_thread(_clear_the_way, request, specs)
        try:
            if not already:
                try:
                    await asyncio.to_thread(_start, request, specs)
                except OSError as error:
                    # A full disk names no file.
                    what = f"{error.filename}: {error.strerror}" if error.filename else str(error.strerror)
                    raise LocalError(f"the state folder {layout.root} cannot be written ({what})", _FOLDER) from None
            await _wait_until_serving(request, specs, supervisor, display)
            await probe(
                request.config,
                url=ingress_url(request.config),
                key=api_key(request.mesh, request.config, request.environ),
                patience_s=_PROBE_S,
                say=display.say,
            )
        except BaseException as error:
            if not already:
                what = "interrupted" if isinstance(error, asyncio.CancelledError | KeyboardInterrupt) else "failed"
                display.say(f"{what}; stopping everything that was started")
                await asyncio.shield(bring_down(layout, None, drain=False, say=lambda _: None))
            raise
    yield already


def ingress_url(config: TiermeshConfig) -> str:
    """Returns the base URL of the ingress as seen from this machine."""
    host = "127.0.0.1" if config.network.bind in {"0.0.0.0", "::"} else config.network.bind
    return f"http://{host}:{config.network.ingress_port}"


def _check_programs(config: TiermeshConfig, installation: Installation) -> None:
    if any(tier.backend == "vllm" for tier in config.tiers):
        python = installation.engine_python
        if python is None or not python.exists():
            raise LocalError(
                "this configuration has tiers with language models, and their environment is not installed",
                f"run `make up`, which installs it, or set {ENGINE_PYTHON} to an interpreter that has vLLM; "
                "or use the lite profile, which simulates them.",
            )
    for program in (installation.envoy, installation.supervisord, installation.redis_server):
        if not program.exists():
            raise LocalError(f"{program} is not there", "run `make env` to install it.")


def _make_state_folder(layout: StateLayout) -> None:
    try:
        layout.root.mkdir(mode=0o700, parents=True, exist_ok=True)
        layout.root.chmod(0o700)
        layout.logs.mkdir(exist_ok=True)
    except OSError as error:
        raise LocalError(
            f"the state folder {layout.root} cannot be made ({error.filename}: {error.strerror})",
            _FOLDER,
        ) from None


@contextmanager
def _locked(layout: StateLayout) -> Iterator[None]:
    with layout.lock.open("w") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise LocalError(
                f"another `tiermesh up` is starting this mesh ({layout.root})", "wait for it, or stop it with Ctrl-C."
            ) from None
        yield


def _clear_the_way(request: Request, specs: Sequence[ProcessSpec]) -> None:
    """Makes sure that the mesh can be started, before anything is."""
    # Left by a supervisor that was killed: they would hold ports and memory.
    end_all(processes_of(request.layout.root))
    check_ports(request.config, specs)


def _start(request: Request, specs: Sequence[ProcessSpec]) -> None:
    layout, config = request.layout, request.config
    ensure_keys(config, layout.root)
    bootstrap = make_bootstrap(config, metrics=metrics_endpoint(config, request.environ))
    layout.envoy_bootstrap.write_text(json.dumps(bootstrap, indent=1), encoding="utf-8")
    layout.supervisor_conf.write_text(render_supervisor_conf(specs, layout, drain_s=config.drain_s), encoding="utf-8")
    for spec in specs:
        # The tail of a log that is shown on failure must be of this start.
        layout.log_of(spec.name).unlink(missing_ok=True)
    request.mesh.write()
    start_supervisor(request.installation.supervisord, layout, process_environment(request))


def process_environment(request: Request) -> dict[str, str]:
    """Returns the environment of every process of the mesh."""
    exempt = ",".join(
        filter(None, [request.environ.get("no_proxy") or request.environ.get("NO_PROXY"), "127.0.0.1,localhost"])
    )
    engine = {ENGINE_PYTHON: str(request.installation.engine_python)} if request.installation.engine_python else {}
    return {
        **request.environ,
        **engine,
        OWNER: request.mesh.state,
        "TIERMESH_STATE": request.mesh.state,
        "TIERMESH_CONFIG": request.mesh.config_path,
        "PYTHONUNBUFFERED": "1",
        # gRPC would send calls between our own processes to a proxy.
        "no_proxy": exempt,
        "NO_PROXY": exempt,
    }


async def _wait_until_serving(
    request: Request, specs: Sequence[ProcessSpec], supervisor: Supervisor, display: Display
) -> None:
    began = SYSTEM_CLOCK.monotonic()
    served: dict[str, float] = {}
    starts: dict[str, set[int]] = {spec.name: set() for spec in specs}
    async with open_health_checker(request.config) as checker:
        while True:
            states = {state.name: state for state in await asyncio.to_thread(supervisor.processes)}
            up = {name for name, state in states.items() if state.is_up}
            health = await checker.check_all(specs, up)
            now = SYSTEM_CLOCK.monotonic() - began
            for spec in specs:
                if spec.name in states and states[spec.name].pid:
                    starts[spec.name].add(states[spec.name].pid)
                if health[spec.name] == "serving":
                    served.setdefault(spec.name, now)
                else:
                    served.pop(spec.name, None)
            display.show(
                [Row(s.name, stage_text(health[s.name], states.get(s.name)), served.get(s.name, now)) for s in specs]
            )
            if len(served) == len(specs):
                return
            for spec in specs:
                if spec.name not in served:
                    _give_up_on(spec, states.get(spec.name), starts[spec.name], request.layout)
            if now > request.timeout_s:
                waiting = [spec.name for spec in specs if spec.name not in served]
                raise _failure(waiting[0], f"did not serve within {request.timeout_s:.0f} s", request.layout)
            await asyncio.sleep(_TICK_S)


def stage_text(health: Health, state: ProcessState | None) -> str:
    """Returns how far a process is, in a word or two."""
    if health == "serving":
        return "SERVING"
    if state is not None and state.state in {"BACKOFF", "EXITED", "FATAL"}:
        return "failing"
    return "warming up" if health == "warming" else "starting"


def _give_up_on(spec: ProcessSpec, state: ProcessState | None, starts: set[int], layout: StateLayout) -> None:
    if state is not None and (state.state == "FATAL" or len(starts) >= _MOST_STARTS):
        raise _failure(spec.name, "keeps ending instead of serving", layout)


def _failure(name: str, what: str, layout: StateLayout) -> LocalError:
    log = layout.log_of(name)
    tail = "\n".join(f"  | {line}" for line in tail_of(log, 15))
    return LocalError(
        f"{name} {what}" + (f"; the last lines of its log:\n{tail}" if tail else ", and wrote no log"),
        f"correct what the log names and run it again; the whole log is {log}.",
    )


def describe_running(request: Request) -> str:
    """Returns what to print when the mesh is up: addresses, and a request to paste."""
    config, url = request.config, ingress_url(request.config)
    key_file = next((tenant.key_file for tenant in config.tenants if tenant.key_file is not None), None)
    key = f"$(cat '{Path(request.mesh.state) / key_file}')" if key_file else f"${config.tenants[0].key_env}"
    body = '{"model": "auto", "messages": [{"role": "user", "content": "Why is the sky blue?"}]}'
    simulated = [tier.name for tier in config.tiers if tier.backend == "simulated"]
    note = (
        f"\nTiers {', '.join(simulated)} are simulated: their text is made up, and every answer says so.\n"
        if simulated
        else ""
    )
    return (
        f"\nThe mesh answers.\n"
        f"  OpenAI API    {url}/v1\n"
        f"  gRPC          {url.removeprefix('http://')}\n"
        f"  Envoy admin   http://127.0.0.1:{config.network.admin_port}\n"
        f"  API key       {key}\n"
        f"  logs          {request.layout.logs}\n{note}\n"
        f"Try:\n"
        f"  curl {url}/v1/chat/completions -H \"Authorization: Bearer {key}\" -H 'Content-Type: application/json' -d '{body}'\n\n"
        f"tiermesh status, logs, trace, ask, doctor show more; `make down` stops it.\n"
    )


async def stay(request: Request, say: Callable[[str], None]) -> None:
    """Returns when the supervisor has ended by itself."""
    supervisor = Supervisor(request.layout)
    while await asyncio.to_thread(supervisor.is_alive):  # noqa: ASYNC110 -- another process ends; nothing here could set an event
        await asyncio.sleep(1)
    say("the mesh was stopped from elsewhere")
