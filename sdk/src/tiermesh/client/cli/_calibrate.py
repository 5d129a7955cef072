"""`tiermesh calibrate`: fits when answers are escalated, and prints what that would change."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

import typer
import yaml
from tiermesh.client.cli._connection import WRONG, explained
from tiermesh.client.cli._console import make_table, open_console
from tiermesh.shared.calibration import LEAST_RECORDS, Band, Costs
from tiermesh.shared.calibration_log import DEFAULT, Change, LogError, Record, calibrate, read_log
from tiermesh.shared.config import EscalationConfig, TiermeshConfig, load_config

_HUNDRED_TOKENS = 1e-4


def register(app: typer.Typer) -> None:
    """Adds the command."""
    epilog = "Example: tiermesh calibrate judged.jsonl --config mesh/profiles/laptop.yaml --tier l1"
    app.command("calibrate", epilog=epilog)(calibrate_command)


def calibrate_command(
    log: Annotated[Path, typer.Argument(help="JSON Lines: task_type, right, and confidence or features.")],
    config: Annotated[Path | None, typer.Option(help="Configuration whose bands and prices count.")] = None,
    tier: Annotated[str | None, typer.Option(help="Tier whose answers count, where the log has several.")] = None,
    stronger_right: Annotated[
        float, typer.Option(min=0, max=1, help="Share of answers that a stronger tier gets right.")
    ] = 0.98,
    gain: Annotated[
        float, typer.Option(min=0, max=1, help="Escalate where a stronger tier is right so much more often.")
    ] = 0.1,
    top_gain: Annotated[
        float, typer.Option(min=0, max=1, help="Ask the strongest tier where it is right so much more often.")
    ] = 0.3,
    keep_bands: Annotated[
        bool, typer.Option("--keep-bands", help="Write the calibration alone; the bands in force stay.")
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Fit escalation to a log of judged answers. Prints what would change; changes nothing itself."""
    if top_gain < gain:
        _fail(f"--top-gain ({top_gain}) must not be below --gain ({gain})")
    with explained():
        loaded = None if config is None else load_config(config.absolute(), os.environ)
    try:
        records = _of_tier(read_log(log.read_text(encoding="utf-8").splitlines()), tier)
    except (OSError, UnicodeDecodeError, LogError) as error:
        _fail(f"{log}: {error}")
    name = tier or next((record.tier for record in records if record.tier), "TIER")
    escalation = EscalationConfig() if loaded is None else loaded.escalation
    changes = calibrate(
        records,
        bands=_bands(escalation, {record.task_type for record in records}),
        stronger_right=stronger_right,
        gain=gain,
        top_gain=top_gain,
        costs=None if loaded is None else _costs(loaded, name),
    )
    if as_json:
        typer.echo(json.dumps([asdict(change) for change in changes], indent=1))
        return
    _show(changes, _owner(records, name), keep_bands=keep_bands)
    if len(records) < LEAST_RECORDS:
        typer.echo(
            f"# fitted to {len(records)} answers, too few to go by: {LEAST_RECORDS} are the least, of each task type better"
        )
    if any(record.simulated for record in records):
        typer.echo("# from answers that a queueing model made up: for trying escalation, not for judging a model")


def _owner(records: Sequence[Record], tier: str) -> str:
    """Returns whose the calibration is: the model's that gave all answers, where the log tells it, else the tier's."""
    models = {record.model for record in records}
    return models.pop() if len(models) == 1 and models != {""} else tier


def _show(changes: Sequence[Change], owner: str, *, keep_bands: bool) -> None:
    console = open_console()
    numbers = ("answers", "top below", "next below", "to the top", "to the next", "cost", "right")
    table = make_table(console, "task type", *numbers, right=numbers)
    for change in changes:
        old, new = change.old, change.new
        table.add_row(
            change.task_type if change.own else f"{change.task_type} *",
            str(change.count),
            f"{change.old_band.top_below:.3f} -> {change.new_band.top_below:.3f}",
            f"{change.old_band.next_below:.3f} -> {change.new_band.next_below:.3f}",
            f"{old.top_rate:.1%} -> {new.top_rate:.1%}",
            f"{old.next_rate:.1%} -> {new.next_rate:.1%}",
            f"{old.cost:.3f} -> {new.cost:.3f}",
            f"{old.quality:.1%} -> {new.quality:.1%}",
        )
    console.print(table)
    if not all(change.own for change in changes):
        console.print(f"* fewer than {LEAST_RECORDS} answers: fitted to those of all task types")
    console.print("\nTo put it in force, write this into the configuration:\n")
    typer.echo(
        yaml.safe_dump({"escalation": _section(changes, owner, keep_bands=keep_bands)}, sort_keys=False).rstrip()
    )


def _section(changes: Sequence[Change], owner: str, *, keep_bands: bool = False) -> dict[str, Any]:
    bands = {change.task_type: asdict(change.new_band) for change in changes}
    section: dict[str, Any] = {} if keep_bands else {"bands": bands}
    covered = any(change.task_type == DEFAULT for change in changes)
    fitted = {
        change.task_type: {name: round(value, 4) for name, value in asdict(change.weights).items()}
        for change in changes
        # What was fitted to all answers, for want of its own, stands under `default` already.
        if change.weights is not None and (change.own or not covered)
    }
    if fitted:
        section["calibrations"] = {owner: fitted}
    return section


def _of_tier(records: list[Record], tier: str | None) -> list[Record]:
    tiers = sorted({record.tier for record in records if record.tier})
    if tier is None:
        if len(tiers) > 1:
            raise LogError(f"it has answers of {', '.join(tiers)}; choose one with --tier")
        return records
    found = [record for record in records if record.tier in {tier, ""}]
    if not found:
        raise LogError(f"it has no answers of {tier}, only of {', '.join(tiers)}")
    return found


def _bands(escalation: EscalationConfig, kinds: set[str]) -> Mapping[str, Band]:
    found = {kind: escalation.band(kind) for kind in (*kinds, DEFAULT)}
    return {kind: Band(band.top_below, band.next_below) for kind, band in found.items()}


def _costs(config: TiermeshConfig, tier: str) -> Costs | None:
    """Returns prices of a hundred tokens each way; None where the tier is not one of the configuration's."""
    names = [found.name for found in config.tiers]
    if tier not in names:
        return None
    prices = [(found.price_in + found.price_out) * _HUNDRED_TOKENS for found in config.tiers]
    n = names.index(tier)
    return Costs(small=prices[n], next=prices[min(n + 1, len(prices) - 1)], top=prices[-1])


def _fail(message: str) -> None:
    typer.echo(message, err=True)
    raise typer.Exit(WRONG)
