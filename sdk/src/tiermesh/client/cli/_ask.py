"""`tiermesh ask`: one question, one answer."""

from __future__ import annotations

import os
import sys
from typing import Annotated

import grpc
import typer
from tiermesh.api.router.v1 import router_pb2, router_pb2_grpc
from tiermesh.client.cli._connection import Door, Profile, Target, connect, explained, find_ingress, run
from tiermesh.client.cli._label import describe
from tiermesh.client.cli._prompt import make_request, read_prompt
from tiermesh.shared.errors import StreamBroken
from tiermesh.shared.rpc import error_from_rpc, error_of


def register(app: typer.Typer) -> None:
    """Adds the command."""
    app.command("ask", epilog='Example: tiermesh ask "Why is the sky blue?" --model tier:l2')(ask)


def ask(
    prompt: Annotated[str, typer.Argument(help="The question; - reads standard input.")],
    model: Annotated[str, typer.Option("--model", "-m", help="auto, tier:NAME or a served model.")] = "auto",
    stream: Annotated[bool, typer.Option("--stream/--no-stream", help="Print text as it comes.")] = True,
    system: Annotated[str | None, typer.Option(help="System prompt.", show_default=False)] = None,
    max_tokens: Annotated[int | None, typer.Option(min=1, help="Longest answer.", show_default=False)] = None,
    timeout: Annotated[float, typer.Option(min=0.001, help="Deadline in seconds.")] = 60.0,
    no_cache: Annotated[bool, typer.Option("--no-cache", help="Neither read nor write the answer cache.")] = False,
    target: Target = None,
    profile: Profile = None,
) -> None:
    """Ask the mesh, through its gRPC door; where the answer came from goes to standard error."""
    request = make_request(read_prompt(prompt), model=model, system=system, max_tokens=max_tokens, no_cache=no_cache)
    with explained():
        door = find_ingress(os.environ, target=target, profile=profile)
        run(_ask(door, request, stream=stream, timeout=timeout))


async def _ask(door: Door, request: router_pb2.GenerateRequest, *, stream: bool, timeout: float) -> None:
    route = router_pb2.RouteLabel()
    done: router_pb2.Done | None = None
    pieces: list[str] = []
    async with connect(door) as channel:
        call = router_pb2_grpc.RouterServiceStub(channel).Generate(request, timeout=timeout, metadata=door.metadata)
        try:
            async for response in call:
                match response.WhichOneof("event"):
                    case "route":
                        route = response.route
                    case "delta":
                        pieces.append(response.delta.text)
                        if stream:
                            sys.stdout.write(response.delta.text)
                            sys.stdout.flush()
                    case "done":
                        done = response.done
                    case "failure":
                        raise error_of(response.failure)
        except grpc.aio.AioRpcError as error:
            raise error_from_rpc(error) from None
        finally:
            # Stopped early, by Ctrl-C too, it must not go on costing anything.
            call.cancel()
    if done is None:
        raise StreamBroken("the answer ended without its last event")
    sys.stdout.write("\n" if stream else "".join(pieces) + "\n")
    sys.stdout.flush()
    usage = done.usage
    typer.echo(
        f"[{describe(route)} · {usage.prompt_token_count}+{usage.completion_token_count} tokens · "
        f"{done.total.ToMilliseconds()} ms · trace {route.trace_id} · request {route.request_id}]",
        err=True,
    )
