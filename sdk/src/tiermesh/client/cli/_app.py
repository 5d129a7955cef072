"""Puts the commands together: those of this package, and those that other installed packages add."""

from __future__ import annotations

import sys
from importlib.metadata import entry_points, version
from typing import Annotated

import typer
from tiermesh.client.cli import (
    _ask,
    _bandit,
    _calibrate,
    _config,
    _errors,
    _explain,
    _feedback,
    _judge,
    _replay,
    _rules,
    _thresholds,
    _trace,
    _warm,
)

PLUGINS = "tiermesh.commands"
"""Entry points of this group are called with the application, to add their commands."""

_HELP = "Ask, watch and run a tiermesh: one endpoint that answers from the cheapest place that is good enough."


def _tell_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"tiermesh {version('tiermesh-sdk')}")
        raise typer.Exit


def make_app() -> typer.Typer:
    """Returns the application with every command that is installed."""
    app = typer.Typer(
        name="tiermesh",
        help=_HELP,
        no_args_is_help=True,
        add_completion=False,
        pretty_exceptions_enable=False,
        context_settings={"help_option_names": ["-h", "--help"]},
    )
    app.callback()(_options)
    for plugin in sorted(entry_points(group=PLUGINS), key=lambda found: found.name):
        plugin.load()(app)
    for part in (
        _ask, _explain, _feedback, _trace, _errors, _config, _judge, _calibrate, _thresholds, _rules, _replay, _bandit, _warm,
    ):  # fmt: skip
        part.register(app)
    return app


def _options(
    show_version: Annotated[
        bool, typer.Option("--version", help="Show the version and exit.", is_eager=True, callback=_tell_version)
    ] = False,
) -> None:
    """Options of the program itself; its help is that of the application."""


def main() -> None:
    """Runs the command line."""
    for stream in (sys.stdout, sys.stderr):
        # A pipe may be opened as ASCII; answers are in any language.
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(encoding="utf-8", errors="replace")
    make_app()()
