"""`tiermesh cache warm`: asks a log of questions ahead of time, so that their answers are in the cache."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path
from typing import Annotated

import grpc
import typer
from tiermesh.api.router.v1 import router_pb2, router_pb2_grpc
from tiermesh.client.cli._connection import FAILED, Door, Profile, Target, connect, explained, find_ingress, run
from tiermesh.client.cli._files import check_writable, read_input
from tiermesh.client.cli._progress import open_progress
from tiermesh.client.cli.warmer import Busy, Refused, Report, Warmer
from tiermesh.client.cli.warming import Window, WrongLine, mark_of, parse_line, parse_window
from tiermesh.shared.config import ConfigError
from tiermesh.shared.rpc import error_from_rpc

_TIMEOUT_S = 120.0
_BUSY = frozenset({grpc.StatusCode.RESOURCE_EXHAUSTED, grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.DEADLINE_EXCEEDED})
_HOPELESS = frozenset(
    {grpc.StatusCode.UNAUTHENTICATED, grpc.StatusCode.PERMISSION_DENIED, grpc.StatusCode.UNIMPLEMENTED}
)
"""What goes for all questions alike."""


def register(app: typer.Typer) -> None:
    """Adds the command to the group `cache`, which the package of the cache may have made already."""
    groups = (found.typer_instance for found in app.registered_groups if found.name == "cache")
    group = next(groups, None)
    if group is None:
        group = typer.Typer(help="The answer cache.", no_args_is_help=True)
        group.callback()(_group)
        app.add_typer(group, name="cache")
    group.command("warm", epilog="Example: tiermesh cache warm questions.jsonl --window 01:00-05:30")(warm)


def _group() -> None:
    # One command alone would take the place of its group.
    return


def warm(
    questions: Annotated[
        Path, typer.Argument(help='JSON lines: "text", {"question": ...}, or bodies of chat completions.')
    ],
    window: Annotated[
        str | None,
        typer.Option(help="Hours of the day to run in, such as 01:00-05:30; waits outside.", show_default=False),
    ] = None,
    pause: Annotated[float, typer.Option(min=0, help="Seconds to leave between questions.")] = 0.0,
    done: Annotated[
        Path | None,
        typer.Option(help="Where answered questions are marked; QUESTIONS.done by default.", show_default=False),
    ] = None,
    target: Target = None,
    profile: Profile = None,
) -> None:
    """Ask a log of questions one after another, behind all live traffic; run it again to go on where it stopped."""
    marks = done or questions.with_name(questions.name + ".done")
    with explained():
        hours = _hours(window)
        requests = read_input(questions, _read)
        finished = set(read_input(marks, _marked)) if marks.exists() else set()
        check_writable(marks)
    left = [request for request in requests if mark_of(request) not in finished]
    if not left:
        typer.echo(f"all {len(requests)} questions are answered already; delete {marks} to begin again")
        return
    with explained():
        door = find_ingress(os.environ, target=target, profile=profile)
        report = Report()
        try:
            run(_warm(door, left, marks, report, hours=hours, pause_s=pause, total=len(requests)))
        finally:
            _tell(report, len(left))
    if report.answered < len(left):
        raise typer.Exit(FAILED)


async def _warm(
    door: Door,
    requests: list[router_pb2.GenerateRequest],
    marks: Path,
    report: Report,
    *,
    hours: Window | None,
    pause_s: float,
    total: int,
) -> None:
    with (
        open_progress("warming", total=total, done=total - len(requests)) as progress,
        marks.open("a", encoding="ascii") as log,
    ):

        def done(request: router_pb2.GenerateRequest) -> None:
            # Written at once, so that an end at any moment loses nothing.
            log.write(mark_of(request) + "\n")
            log.flush()
            progress.advance()

        async with connect(door) as channel:
            stub = router_pb2_grpc.RouterServiceStub(channel)
            warmer = Warmer(
                lambda request: _ask(stub, request, door),
                done,
                window=hours,
                pause_s=pause_s,
                now=lambda: datetime.now().astimezone().time(),
                sleep=asyncio.sleep,
                tell=progress.tell,
            )
            await warmer.run(requests, report)


async def _ask(
    stub: router_pb2_grpc.RouterServiceAsyncStub, request: router_pb2.GenerateRequest, door: Door
) -> router_pb2.CacheStatus.ValueType:
    status = router_pb2.CACHE_STATUS_UNSPECIFIED
    call = stub.Generate(request, timeout=_TIMEOUT_S, metadata=door.metadata)
    try:
        async for response in call:
            event = response.WhichOneof("event")
            if event == "route":
                status = response.route.cache_status
            elif event == "done":
                return status
    except grpc.aio.AioRpcError as failed:
        error = error_from_rpc(failed)
        if failed.code() in _BUSY:
            raise Busy(f"{error.reason}: {error.message}") from None
        if failed.code() in _HOPELESS:
            raise error from None
        raise Refused(error.reason) from None
    finally:
        call.cancel()
    raise Busy("an answer ended without its last event")


def _tell(report: Report, asked: int) -> None:
    cached = f", {report.cached} of them by the cache already" if report.cached else ""
    typer.echo(f"{report.answered} of {asked} questions answered{cached}")
    if report.bypassed:
        typer.echo(
            f"{report.bypassed} of them are not kept: see `tiermesh explain`; a temperature needs a seed", err=True
        )
    for reason, count in report.refused.items():
        typer.echo(f"{count} refused: {reason}", err=True)
    if report.gave_up:
        typer.echo(f"the mesh has no room, or cannot be reached ({report.gave_up})", err=True)
    if report.answered < asked:
        typer.echo("the others are asked again when this is run again", err=True)


def _hours(window: str | None) -> Window | None:
    try:
        return parse_window(window) if window else None
    except ValueError as error:
        raise ConfigError(f"--window: {error}") from None


def _marked(path: Path) -> list[str]:
    return path.read_text(encoding="ascii").split()


def _read(path: Path) -> list[router_pb2.GenerateRequest]:
    return list({mark_of(request): request for request in _requests(path)}.values())


def _requests(path: Path) -> Iterator[router_pb2.GenerateRequest]:
    for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
        if line.strip():
            try:
                yield parse_line(line)
            except WrongLine as error:
                raise ValueError(f"{path}:{number}: {error}") from None
