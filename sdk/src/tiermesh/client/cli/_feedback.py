"""`tiermesh feedback`: says how good an answer was."""

from __future__ import annotations

import os
from typing import Annotated

import grpc
import typer
from tiermesh.api.router.v1 import router_pb2, router_pb2_grpc
from tiermesh.client._request import Source, make_report
from tiermesh.client.cli._connection import WRONG, Door, Profile, Target, connect, explained, find_ingress, run
from tiermesh.shared.rpc import error_from_rpc

_DEADLINE_S = 10.0


def register(app: typer.Typer) -> None:
    """Adds the command."""
    epilog = "Example: tiermesh feedback 2f0c7a52-1c0e-4f0b-9a54-6f1d0f0a3b11 --wrong"
    app.command("feedback", epilog=epilog)(feedback)


def feedback(
    request_id: Annotated[str, typer.Argument(help="Request id of the answer, as `tiermesh ask` prints it.")],
    right: Annotated[bool, typer.Option("--right", help="The answer was right.")] = False,
    wrong: Annotated[bool, typer.Option("--wrong", help="The answer was wrong.")] = False,
    score: Annotated[
        float | None, typer.Option("--score", min=0, max=1, help="Between wrong (0) and right (1).", show_default=False)
    ] = None,
    source: Annotated[
        str, typer.Option(help="Who says so: user, judge (a model) or check (a program that can tell).")
    ] = "user",
    judge: Annotated[str, typer.Option(help="Name of the judge or check.", show_default=False)] = "",
    target: Target = None,
    profile: Profile = None,
) -> None:
    """Say how good the answer to one of your requests was, for the mesh to learn from."""
    if right + wrong + (score is not None) != 1:
        typer.echo("say exactly one of --right, --wrong and --score NUMBER", err=True)
        raise typer.Exit(WRONG)
    known: dict[str, Source] = {"user": "user", "judge": "judge", "check": "check"}
    if source not in known:
        typer.echo(f"--source {source}: must be one of {', '.join(known)}", err=True)
        raise typer.Exit(WRONG)
    opinion = None if score is not None else right
    report = make_report(request_id.strip(), right=opinion, score=score, source=known[source], judge=judge)
    with explained():
        door = find_ingress(os.environ, target=target, profile=profile)
        filed = run(_report(door, report))
    typer.echo("filed" if filed else "not filed: the request is not among those sampled (outcomes.sample)")


async def _report(door: Door, report: router_pb2.ReportOutcomeRequest) -> bool:
    async with connect(door) as channel:
        stub = router_pb2_grpc.RouterServiceStub(channel)
        try:
            answer = await stub.ReportOutcome(report, timeout=_DEADLINE_S, metadata=door.metadata)
        except grpc.aio.AioRpcError as error:
            raise error_from_rpc(error) from None
        return bool(answer.recorded)
