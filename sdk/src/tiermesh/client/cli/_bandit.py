"""`tiermesh bandit`: shows what the bandit has learnt, and makes it forget."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated

import typer
from tiermesh.client.cli._connection import explained
from tiermesh.shared.config import ConfigError

_File = Annotated[Path, typer.Argument(help="The bandit's file, such as .tiermesh/local/bandit.json.")]


def register(app: typer.Typer) -> None:
    """Adds the command group."""
    group = typer.Typer(help="Look at what routing by bandit has learnt.", no_args_is_help=True)
    group.command("show", epilog="Example: tiermesh bandit show .tiermesh/local/bandit.json")(show)
    group.command("reset", epilog="Example: tiermesh bandit reset .tiermesh/local/bandit.json")(reset)
    app.add_typer(group, name="bandit")


def show(file: _File, as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False) -> None:
    """Show how many answers were learnt from, and what counts for and against each tier."""
    from tiermesh.shared.bandit import NAMES, StateDamaged, load_learnt  # noqa: PLC0415 -- no other command waits for numpy

    with explained():
        if not file.exists():
            raise ConfigError(
                f"{file}: is not there; the mesh writes it once it has learnt something (bandit.mode shadow or live, and feedback), "
                "to where bandit.state says"
            )
        try:
            learnt = load_learnt(file)
        except StateDamaged as error:
            raise ConfigError(str(error)) from None
    counts = {name: one.count for name, one in learnt.posteriors.items()}
    weights: dict[str, dict[str, float]] = {}
    for name, one in learnt.posteriors.items():
        assert one.weights is not None
        weights[name] = dict(zip(NAMES, map(float, one.weights.round(4)), strict=True))
    since = datetime.fromtimestamp(learnt.since_s, UTC).isoformat(timespec="seconds") if learnt.since_s else ""
    if as_json:
        typer.echo(
            json.dumps({"version": learnt.version, "since": since, "answers": counts, "weights": weights}, indent=2)
        )
        return
    typer.echo(f"version {learnt.version}, {learnt.count} answers" + (f" since {since}" if since else ""))
    for name, known in weights.items():
        strongest = sorted(known.items(), key=lambda pair: -abs(pair[1]))[:5]
        told = ", ".join(f"{feature} {weight:+.3f}" for feature, weight in strongest)
        typer.echo(f"{name}: {counts[name]} answers; beside what the classifier says: {told}")


def reset(file: _File) -> None:
    """Forget everything: only outcomes of requests that arrive from now on are learnt from. Routers follow within a minute."""
    from tiermesh.shared.bandit import save_learnt  # noqa: PLC0415 -- no other command waits for numpy
    from tiermesh.shared.bandit.state import make_learnt  # noqa: PLC0415 -- no other command waits for numpy

    now = datetime.now(UTC)
    try:
        save_learnt(file, make_learnt({}, now.timestamp()))
    except OSError as error:
        typer.echo(f"{file}: cannot be written ({error.strerror})", err=True)
        raise typer.Exit(2) from None
    typer.echo(f"{file}: nothing is known; learning from requests since {now.isoformat(timespec='seconds')}")
