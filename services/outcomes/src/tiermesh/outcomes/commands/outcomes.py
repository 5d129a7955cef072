"""`tiermesh outcomes`: what the log holds, and records as files."""

from __future__ import annotations

import os
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer
from google.protobuf import json_format
from tiermesh.outcomes.commands.options import (
    AsJson,
    Logs,
    Origin,
    Profile,
    Since,
    Target,
    Tenant,
    Until,
    explained,
    make_wanted,
    missing,
)
from tiermesh.outcomes.export import write_jsonl
from tiermesh.outcomes.source import find_log, read_status


class Format(StrEnum):
    """Of an export."""

    JSONL = "jsonl"
    PARQUET = "parquet"


def register(app: typer.Typer) -> None:
    """Adds the command group."""
    group = typer.Typer(help="The log of what came of requests.", no_args_is_help=True)
    group.command("export", epilog="Example: tiermesh outcomes export --since 7d --out outcomes.jsonl")(export)
    group.command("status", epilog="Example: tiermesh outcomes status")(status)
    app.add_typer(group, name="outcomes")


def export(
    out: Annotated[Path, typer.Option("--out", "-o", help="File to write; one that is there is replaced.")],
    logs: Logs = None,
    form: Annotated[Format, typer.Option("--format", "-f", help="jsonl, or parquet for data frames.")] = Format.JSONL,
    since: Since = None,
    until: Until = None,
    tenant: Tenant = "",
    with_feedback: Annotated[bool, typer.Option("--with-feedback", help="Only requests with feedback.")] = False,
    with_text: Annotated[
        bool, typer.Option("--with-text", help="Prompts and answers too, where they were kept.")
    ] = False,
    limit: Annotated[int, typer.Option("--limit", min=0, help="Most records, the newest of them; 0 for all.")] = 0,
    target: Target = None,
    profile: Profile = None,
) -> None:
    """Write records to a file, oldest first, each with its feedback."""
    wanted = make_wanted(
        since=since, until=until, tenant=tenant, with_feedback=with_feedback, with_text=with_text, limit=limit
    )
    write = write_jsonl
    if form is Format.PARQUET:
        try:
            from tiermesh.outcomes.parquet import write_parquet  # noqa: PLC0415 -- optional, and slow to import
        except ImportError as error:
            missing(error, "parquet")
        write = write_parquet
    with explained():
        count = write(Origin(logs or (), target, profile).read(wanted), out)
    typer.echo(f"wrote {out}: {count} records")


def status(as_json: AsJson = False, target: Target = None, profile: Profile = None) -> None:
    """Show what the log holds."""
    with explained():
        found = read_status(find_log(os.environ, target=target, profile=profile))
    if as_json:
        typer.echo(
            json_format.MessageToJson(
                found, preserving_proto_field_name=True, always_print_fields_with_no_presence=True
            )
        )
        return
    typer.echo(f"{found.outcome_count} records, {found.feedback_count} opinions, {found.size_bytes / 2**20:.1f} MiB")
    if found.HasField("oldest"):
        oldest, newest = (time.ToDatetime().strftime("%Y-%m-%d %H:%M:%S") for time in (found.oldest, found.newest))
        typer.echo(f"from {oldest} to {newest} UTC")
    if found.rotated_count:
        typer.echo(f"{found.rotated_count} dropped for age or size since its start")
    moved = [
        f"{each.feature} ({each.state}, PSI {each.psi:.2f})" for each in found.drift if each.state in {"watch", "drift"}
    ]
    if found.drift:
        typer.echo(f"drift: {', '.join(moved) or 'none'}")
