"""`tiermesh explain`: where a request would go, and why."""

from __future__ import annotations

import os
from typing import Annotated

import grpc
import typer
from google.protobuf import json_format
from rich.console import Console
from tiermesh.api.router.v1 import router_pb2, router_pb2_grpc
from tiermesh.client.cli._connection import Door, Profile, Target, connect, explained, find_ingress, run
from tiermesh.client.cli._console import make_table, open_console
from tiermesh.client.cli._label import cache_word, finding_words, task_word
from tiermesh.client.cli._prompt import make_request, read_prompt
from tiermesh.shared.rpc import error_from_rpc

_DEADLINE_S = 10.0


def register(app: typer.Typer) -> None:
    """Adds the command."""
    app.command("explain", epilog='Example: tiermesh explain "Write a quicksort in Python"')(explain)


def explain(
    prompt: Annotated[str, typer.Argument(help="The question; - reads standard input.")],
    model: Annotated[str, typer.Option("--model", "-m", help="auto, tier:NAME or a served model.")] = "auto",
    as_json: Annotated[bool, typer.Option("--json", help="Print the whole decision as JSON.")] = False,
    target: Target = None,
    profile: Profile = None,
) -> None:
    """Show which tier a request would go to and why, without running a model."""
    request = make_request(read_prompt(prompt), model=model)
    with explained():
        door = find_ingress(os.environ, target=target, profile=profile)
        answer = run(_explain(door, request))
        if as_json:
            typer.echo(json_format.MessageToJson(answer, preserving_proto_field_name=True))
        else:
            show_decision(open_console(), answer)


async def _explain(door: Door, request: router_pb2.GenerateRequest) -> router_pb2.ExplainResponse:
    async with connect(door) as channel:
        stub = router_pb2_grpc.RouterServiceStub(channel)
        try:
            return await stub.Explain(
                router_pb2.ExplainRequest(request=request), timeout=_DEADLINE_S, metadata=door.metadata
            )
        except grpc.aio.AioRpcError as error:
            raise error_from_rpc(error) from None


def show_decision(console: Console, answer: router_pb2.ExplainResponse) -> None:
    """Prints a decision: the tier, the reasons, and a verdict on every tier."""
    route = answer.route
    console.print(f"tier {route.tier} ({route.model})", markup=False)
    console.print(f"because {', '.join(route.reasons) or 'nothing else was asked for'}", markup=False)
    console.print(
        f"task {task_word(route)}, complexity {route.complexity:.2f}, judged by {route.classifier_source or 'nobody'}",
        markup=False,
    )
    console.print(f"cache {cache_word(route)}{finding_words(route.cache)}", markup=False)
    if answer.candidates:
        console.print(f"would try: {', then '.join(answer.candidates)}", markup=False)
    table = make_table(console, "tier", "eligible", "breaker", "reason", "detail")
    for verdict in route.verdicts:
        breaker = "open" if verdict.breaker_open else "closed"
        table.add_row(verdict.tier, "yes" if verdict.eligible else "no", breaker, verdict.reason, verdict.detail)
    console.print()
    console.print(table)
