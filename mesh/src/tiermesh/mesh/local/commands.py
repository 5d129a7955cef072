"""The commands that start, stop and look at the mesh on this machine; `tiermesh` finds them as a plug-in."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
from collections.abc import Coroutine, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from tiermesh.mesh.local import views
from tiermesh.mesh.local.certificates import check_certificates
from tiermesh.mesh.local.display import open_display
from tiermesh.mesh.local.doctor import check_installation, check_resources, check_running, check_stopped, check_versions
from tiermesh.mesh.local.down import bring_down
from tiermesh.mesh.local.errors import LocalError
from tiermesh.mesh.local.installation import find_installation
from tiermesh.mesh.local.layout import StateLayout
from tiermesh.mesh.local.log_files import format_line, parse_line, tail_of
from tiermesh.mesh.local.ports import overrides_from
from tiermesh.mesh.local.status import log_names, read_status
from tiermesh.mesh.local.supervision import Supervisor
from tiermesh.mesh.local.up import Request, bring_up, describe_running, stay
from tiermesh.shared.config import ConfigError, TiermeshConfig
from tiermesh.shared.local_mesh import (
    LocalMesh,
    MeshNotFound,
    find_mesh,
    home_folder,
    overrides_of,
    read_note,
    state_folder,
)

FAILED, WRONG_CONFIG, NOT_RUNNING, INTERRUPTED = 1, 2, 3, 130

Profile = Annotated[
    str | None,
    typer.Option("--profile", "-p", help="Profile of the mesh that is meant, where several run.", show_default=False),
]
ConfigFile = Annotated[
    Path | None, typer.Option("--config", "-c", help="Configuration file instead of a profile.", show_default=False)
]
_PIPED_WIDTH = 160
_out = Console(highlight=False, soft_wrap=True, width=None if sys.stdout.isatty() else _PIPED_WIDTH)


def register(app: typer.Typer) -> None:
    """Adds the commands to `tiermesh`."""
    panel = "This machine"

    def add(function: Any, name: str, example: str) -> None:
        app.command(name, rich_help_panel=panel, epilog=f"Example: {example}")(function)

    add(up, "up", "tiermesh up --profile lite")
    add(down, "down", "tiermesh down")
    add(status, "status", "tiermesh status --json")
    add(logs, "logs", "tiermesh logs engine-l1-0 -f")
    add(doctor, "doctor", "tiermesh doctor")


def up(
    profile: Annotated[
        str | None, typer.Option("--profile", "-p", help="local, lite or laptop (default: local).", show_default=False)
    ] = None,
    config: ConfigFile = None,
    foreground: Annotated[bool, typer.Option("--foreground", help="Stay; Ctrl-C drains and stops the mesh.")] = False,
    timeout: Annotated[float, typer.Option(help="Longest wait for every process to serve, in seconds.")] = 600.0,
    first_port: Annotated[
        int | None,
        typer.Option(
            min=1024,
            max=60_000,
            help="Put the ingress on this port and everything else behind it, such as for a second mesh.",
            show_default=False,
        ),
    ] = None,
) -> None:
    """Start the mesh, and return when it has answered a request."""
    with _explained():
        request = _request(profile, config, timeout, first_port)
        _run(_up(request, foreground))


async def _up(request: Request, foreground: bool) -> None:
    if not Supervisor(request.layout).is_alive():
        for finding in check_resources(request.config, running=False, folder=home_folder(os.environ)):
            if finding.level != "ok":
                _say(f"{finding.level}: {finding.what}\n  what to do: {finding.advice}")
    with open_display(_out) as display:
        async with bring_up(request, display) as already:
            pass
    if already:
        _out.print("The mesh was running already; it is well.", markup=False)
    _out.print(describe_running(request), markup=False)
    if not foreground:
        return
    _out.print("Ctrl-C drains and stops it.", markup=False)
    try:
        await stay(request, _say)
    except asyncio.CancelledError:
        await _down(StateLayout(Path(request.mesh.state)), request.mesh, now=False)


def down(
    profile: Profile = None,
    now: Annotated[bool, typer.Option("--now", help="Do not wait for requests in flight.")] = False,
) -> None:
    """Let requests in flight finish, then stop every process of the mesh."""
    with _explained():
        try:
            mesh = find_mesh(os.environ, profile)
        except MeshNotFound as error:
            # A mesh whose note is lost may still have processes.
            layout = StateLayout(state_folder(os.environ, profile or os.environ.get("TIERMESH_PROFILE") or "local"))
            if "several" in str(error) or not layout.root.exists():
                _say(str(error))
                raise typer.Exit(NOT_RUNNING if "several" in str(error) else 0) from None
            _run(_down(layout, None, now=True))
            return
        _run(_down(StateLayout(Path(mesh.state)), mesh, now=now))


async def _down(layout: StateLayout, mesh: LocalMesh | None, *, now: bool) -> None:
    config = None
    if mesh is not None:
        try:
            config, _ = mesh.config_in_force()
        except ConfigError as error:
            _say(f"the configuration has become wrong, so requests in flight are not waited for: {error}")
    result = await bring_down(layout, config, drain=not now, say=_say)
    if result.cut:
        _say(f"{result.cut} request(s) were still in flight when the time to drain was over")
    if result.killed:
        _say(f"ended by force: {', '.join(result.killed)}")
    _say("The mesh is stopped." if result.was_running or result.killed else "The mesh was not running.")


def status(
    profile: Profile = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Show every process with its health, and which configuration is served."""
    with _explained():
        request = _running(profile)
        found = _run(read_status(request.config, request.plan(), request.layout))
        if as_json:
            typer.echo(json.dumps(found.as_dict(), indent=1))
        else:
            views.show_status(_out, request.mesh, found)
        raise typer.Exit(0 if found.is_well else FAILED)


def logs(
    name: Annotated[str | None, typer.Argument(help="Process, such as engine-l1-0; all of them without it.")] = None,
    follow: Annotated[bool, typer.Option("--follow", "-f", help="Go on with what comes.")] = False,
    lines: Annotated[int, typer.Option("--lines", "-n", min=0, help="Lines from the end of each log.")] = 50,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON lines.")] = False,
    profile: Profile = None,
) -> None:
    """Show the processes' logs."""
    with _explained():
        layout = _layout(profile)
        names = log_names(layout)
        if name is not None:
            if name not in names:
                raise LocalError(f"no process called {name!r} has a log", f"choose one of: {', '.join(names)}.")
            names = [name]

        def show(line: str, process: str) -> None:
            fields = parse_line(line, process)
            typer.echo(json.dumps(fields, ensure_ascii=False) if as_json else format_line(fields))

        tails = [(line, each) for each in names for line in tail_of(layout.log_of(each), lines)]
        # JSON lines carry their time; lines without one stay where their log has them.
        if len(names) > 1:
            tails = views.by_time(tails)
        for line, each in tails:
            show(line, each)
        if follow:
            views.follow_many({each: layout.log_of(each) for each in names}, show)


def doctor(profile: Profile = None, config: ConfigFile = None) -> None:
    """Look for what is commonly wrong, and say what to do about it."""
    with _explained():
        try:
            request = _running(profile) if config is None else _request(profile, config, 0)
        except (MeshNotFound, LocalError):
            request = _request(profile, config, 0)
        layout = request.layout
        running = Supervisor(layout).is_alive()
        cache = os.environ.get("XDG_CACHE_HOME") or str(Path.home() / ".cache")
        findings = [
            *check_versions(),
            *check_installation(request.config, request.installation, Path(cache) / "tiermesh" / "models"),
            *check_resources(request.config, running=running, folder=home_folder(os.environ)),
            *check_certificates(request.config, datetime.now(UTC)),
        ]
        if running:
            found = _run(read_status(request.config, request.plan(), layout))
            findings += check_running(found, layout)
        else:
            findings += check_stopped(request.config, request.plan(), layout)
        views.show_findings(_out, findings)
        raise typer.Exit(FAILED if any(finding.level == "problem" for finding in findings) else 0)


def _request(profile: str | None, config_file: Path | None, timeout: float, first_port: int | None = None) -> Request:
    """Returns what is to be started; a mesh that runs already is taken as it was started."""
    environ = dict(os.environ)
    if config_file is None and profile is None and environ.get("TIERMESH_CONFIG"):
        config_file = Path(environ["TIERMESH_CONFIG"])
    if config_file is None:
        profile = profile or environ.get("TIERMESH_PROFILE") or "local"
        config_file = home_folder(environ) / "mesh" / "profiles" / f"{profile}.yaml"
        if not config_file.is_file() or profile == "rules":
            known = sorted(path.stem for path in config_file.parent.glob("*.yaml") if path.stem != "rules")
            raise LocalError(
                f"there is no profile {profile!r} in {config_file.parent}",
                f"choose one of: {', '.join(known) or '(none)'}; or name a file with --config.",
            )
    config_path = config_file.absolute()
    name = profile or config_path.stem
    state = state_folder(environ, name)
    mesh = read_note(state)
    if mesh is None or not Supervisor(StateLayout(state)).is_alive():
        ports = {} if first_port is None else overrides_from(first_port)
        mesh = LocalMesh(name, str(config_path), str(state), {**ports, **overrides_of(environ)})
    return _as_request(mesh, timeout)


def _running(profile: str | None) -> Request:
    mesh = find_mesh(os.environ, profile)
    if not Supervisor(StateLayout(Path(mesh.state))).is_alive():
        raise MeshNotFound(
            f"the mesh of {mesh.state} is not running any more; `tiermesh down` clears what is left, `tiermesh up` starts it"
        )
    config, wrong = mesh.config_in_force()
    if wrong is not None:
        _say(f"the configuration file has become wrong; the mesh goes on with the one accepted last. {wrong}")
    return _as_request(mesh, 600, config)


def _as_request(mesh: LocalMesh, timeout: float, config: TiermeshConfig | None = None) -> Request:
    environ = {**os.environ, **mesh.overrides}
    return Request(mesh, config or mesh.load_config(), find_installation(environ), environ, timeout)


def _layout(profile: str | None) -> StateLayout:
    """Returns the state folder whose logs are meant: those of a mesh that has ended can still be read."""
    try:
        return StateLayout(Path(find_mesh(os.environ, profile).state))
    except MeshNotFound:
        layout = StateLayout(state_folder(os.environ, profile or os.environ.get("TIERMESH_PROFILE") or "local"))
        if not layout.logs.is_dir():
            raise
        return layout


def _run(work: Coroutine[Any, Any, Any]) -> Any:
    """Runs a coroutine; SIGTERM stops it as Ctrl-C does."""

    async def stoppable() -> Any:
        task = asyncio.current_task()
        assert task is not None
        asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, task.cancel)
        return await work

    return asyncio.run(stoppable())


@contextmanager
def _explained() -> Iterator[None]:
    """Prints a failure as a person should read it, and turns it into an exit status."""
    try:
        yield
    except ConfigError as error:
        _fail(str(error))
        raise typer.Exit(WRONG_CONFIG) from None
    except MeshNotFound as error:
        _fail(str(error))
        raise typer.Exit(NOT_RUNNING) from None
    except LocalError as error:
        _fail(str(error))
        raise typer.Exit(FAILED) from None
    except (KeyboardInterrupt, asyncio.CancelledError):
        raise typer.Exit(INTERRUPTED) from None
    except OSError as error:
        if error.filename is None:
            raise
        # A full disk, most often: whatever was being written, the advice is the same.
        _fail(f"{error.filename}: {error.strerror}\nWhat to do: make it usable, or free some space; then run again.")
        raise typer.Exit(FAILED) from None


def _fail(text: str) -> None:
    typer.echo(text, err=True)


def _say(text: str) -> None:
    _out.print(text, markup=False)
