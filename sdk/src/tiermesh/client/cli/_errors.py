"""`tiermesh errors`: every reason that an answer can fail for."""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import Annotated

import typer
from tiermesh.client.cli._console import make_table, open_console
from tiermesh.shared.errors import ERROR_TABLE


def register(app: typer.Typer) -> None:
    """Adds the command."""
    app.command("errors", epilog="Example: tiermesh errors QUEUE_FULL")(errors)


def errors(
    reason: Annotated[str | None, typer.Argument(help="A reason or code; all of them without it.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Show what each error means and what to do about it."""
    wanted = (reason or "").upper()
    rows = [row for row in ERROR_TABLE.values() if not wanted or wanted in {row.reason, row.code}]
    if not rows:
        typer.echo(f"no reason or code {reason!r}; known: {', '.join(ERROR_TABLE)}", err=True)
        raise typer.Exit(1)
    if as_json:
        typer.echo(json.dumps([{**asdict(row), "status": row.status.name} for row in rows], indent=1))
        return
    console = open_console()
    table = make_table(console, "code", "reason", "gRPC", "HTTP", "meaning", "what to do")
    for row in rows:
        table.add_row(row.code, row.reason, row.status.name, str(row.http_status), row.meaning, row.advice)
    console.print(table)
