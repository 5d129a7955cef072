"""`tiermesh trace`: the last traces, or one of them as a waterfall."""

from __future__ import annotations

import os
from typing import Annotated

import grpc
import typer
from google.protobuf import json_format
from tiermesh.api.trace.v1 import trace_pb2, trace_pb2_grpc
from tiermesh.client.cli._connection import Door, Profile, connect, explained, find_trace_store, run
from tiermesh.client.cli._console import make_table, open_console
from tiermesh.client.cli.waterfall import draw, lay_out
from tiermesh.shared.rpc import error_from_rpc

_DEADLINE_S = 10.0


def register(app: typer.Typer) -> None:
    """Adds the command."""
    app.command("trace", epilog="Example: tiermesh trace 4bf92f3577b34da6a3ce929d0e0e4736")(trace)


def trace(
    trace_id: Annotated[
        str | None, typer.Argument(metavar="[ID]", help="Trace id of 32 hex digits; the last traces without it.")
    ] = None,
    count: Annotated[int, typer.Option("--count", "-n", min=1, help="How many traces to list.")] = 20,
    everything: Annotated[bool, typer.Option("--all", "-a", help="Show every attribute of every span.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
    target: Annotated[
        str | None, typer.Option("--target", help="host:port of a trace store elsewhere.", show_default=False)
    ] = None,
    profile: Profile = None,
) -> None:
    """Show where the time of a request went."""
    with explained():
        door = find_trace_store(os.environ, target=target, profile=profile)
        answer = run(_list(door, count) if trace_id is None else _get(door, trace_id))
    if as_json:
        typer.echo(json_format.MessageToJson(answer, preserving_proto_field_name=True))
    elif isinstance(answer, trace_pb2.GetTraceResponse):
        for line in draw(lay_out(answer.spans, everything=everything), width=open_console().width):
            typer.echo(line)
    else:
        _show_list(answer)


async def _list(door: Door, count: int) -> trace_pb2.ListTracesResponse:
    async with connect(door) as channel:
        try:
            return await trace_pb2_grpc.TraceServiceStub(channel).ListTraces(
                trace_pb2.ListTracesRequest(page_size=count), timeout=_DEADLINE_S
            )
        except grpc.aio.AioRpcError as error:
            raise error_from_rpc(error) from None


async def _get(door: Door, trace_id: str) -> trace_pb2.GetTraceResponse:
    async with connect(door) as channel:
        try:
            return await trace_pb2_grpc.TraceServiceStub(channel).GetTrace(
                trace_pb2.GetTraceRequest(trace_id=trace_id.strip().lower()), timeout=_DEADLINE_S
            )
        except grpc.aio.AioRpcError as error:
            raise error_from_rpc(error) from None


def _show_list(answer: trace_pb2.ListTracesResponse) -> None:
    if not answer.traces:
        typer.echo("no traces yet; send a request, for example `tiermesh ask hello`")
        return
    console = open_console()
    table = make_table(console, "trace id", "began", "name", "spans", "ms", "", right=("spans", "ms"))
    for each in answer.traces:
        table.add_row(
            each.trace_id,
            each.start_time.ToDatetime().strftime("%H:%M:%S"),
            each.root_name,
            str(each.span_count),
            f"{each.duration.ToNanoseconds() / 1e6:.1f}",
            "with errors" if each.failed else "",
        )
    console.print(table)
