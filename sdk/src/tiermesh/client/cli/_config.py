"""`tiermesh config`: checks configuration files."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated

import typer
from tiermesh.client.cli._connection import explained
from tiermesh.shared.config import load_config


def register(app: typer.Typer) -> None:
    """Adds the command group."""
    group = typer.Typer(help="Check configuration files.", no_args_is_help=True)
    group.command("check", epilog="Example: tiermesh config check mesh/profiles/local.yaml")(check)
    app.add_typer(group, name="config")


def check(
    file: Annotated[Path, typer.Argument(help="Configuration file.")],
    show: Annotated[bool, typer.Option("--show", help="Print every value, defaults included, as JSON.")] = False,
) -> None:
    """Read a configuration as the mesh would, overrides of the environment included."""
    with explained():
        config = load_config(file.absolute(), os.environ)
    if show:
        typer.echo(config.model_dump_json(indent=1))
        return
    tiers = ", ".join(f"{tier.name} ({tier.public_model}, {tier.backend})" for tier in config.tiers)
    typer.echo(f"{file}: valid; tiers: {tiers}")
