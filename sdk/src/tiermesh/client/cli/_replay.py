"""`tiermesh replay`: what routing by bandit would have been worth on logged requests, and whether it may go live."""

from __future__ import annotations

import hashlib
import json
import os
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from tiermesh.client.cli._connection import FAILED, explained
from tiermesh.client.cli._console import make_table, open_console
from tiermesh.shared.config import ConfigError, TiermeshConfig, load_config
from tiermesh.shared.outcomes import OutcomeError, read_outcomes

if TYPE_CHECKING:
    from tiermesh.shared.bandit.replay import Replayed

_EXAMPLE = "Example: tiermesh replay outcomes.jsonl --config mesh.yaml --out bandit-report.json"


def register(app: typer.Typer) -> None:
    """Adds the command."""
    app.command("replay", epilog=_EXAMPLE)(replay)


def replay(
    outcomes: Annotated[Path, typer.Argument(help="Export of `tiermesh outcomes export`, JSON lines.")],
    config: Annotated[Path, typer.Option("--config", help="Configuration with the tiers and the bandit's settings.")],
    out: Annotated[Path | None, typer.Option("--out", help="Write the report that bandit.report names.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print the report as JSON.")] = False,
) -> None:
    """Judge the bandit on logged requests with feedback, by the doubly robust estimator, before it may go live.

    Exits with 0 if it has passed and with 1 if it has not; the report is written either way.
    """
    with explained():
        # A report is made before `live` is allowed, and for the very file that will ask for it.
        loaded = load_config(config.absolute(), {**os.environ, "TIERMESH__BANDIT__MODE": "shadow"})
        found, report = _replayed(outcomes, loaded)
    if out is not None:
        out.write_text(json.dumps(report, indent=2) + "\n", "utf-8")
    if as_json:
        typer.echo(json.dumps(report, indent=2))
    else:
        _show(found, report)
        if out is not None:
            typer.echo(f"wrote {out}")
    if not report["passed"]:
        raise typer.Exit(FAILED)


def _replayed(path: Path, config: TiermeshConfig) -> tuple[Replayed, dict[str, Any]]:
    from tiermesh.shared.bandit.logged import logged_decisions  # noqa: PLC0415 -- no other command waits for numpy
    from tiermesh.shared.bandit.replay import replay as judge  # noqa: PLC0415 -- no other command waits for numpy
    from tiermesh.shared.bandit.report import make_report, settings_of  # noqa: PLC0415 -- no other command waits for numpy

    try:
        raw = path.read_text("utf-8")
        log, left_out = logged_decisions(read_outcomes(raw.split("\n")), config)
        found = judge(log, settings=settings_of(config))
    except (OSError, OutcomeError, ValueError) as error:
        raise ConfigError(f"{path}: {error}") from None
    source = {"sha256": hashlib.sha256(raw.encode()).hexdigest(), "usable": len(log), "left_out": left_out}
    return found, make_report(config, found, made=datetime.now(UTC), source=source)


def _show(found: Replayed, report: dict[str, Any]) -> None:
    console = open_console()
    table = make_table(console, "", "static", "bandit", "difference")
    for name, values in (
        ("worth", (found.worth_static, found.worth_bandit, found.worth_difference)),
        ("right", (found.right_static, found.right_bandit, found.right_difference)),
    ):
        table.add_row(name, *(f"{one.mean:+.4f} [{one.low:+.4f}, {one.high:+.4f}]" for one in values))
    console.print(table)
    log = report["log"]
    left = ", ".join(f"{count} {reason}" for reason, count in sorted(log["left_out"].items())) or "none"
    typer.echo(f"{log['usable']} decisions used, {found.requests} judged; left out: {left}")
    typer.echo(
        f"moved {found.moved:.1%}, exploring {found.exploring:.2%}, support {found.support:.1%},"
        f" effective requests {found.effective:.0f}"
    )
    typer.echo("passed" if report["passed"] else "not passed:")
    for objection in report["objections"]:
        typer.echo(f"  {objection}")
