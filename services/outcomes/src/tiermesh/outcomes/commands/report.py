"""`tiermesh report`: which tier is enough for which kind of work."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer
from tiermesh.outcomes.commands.options import (
    WRONG,
    AsJson,
    Logs,
    Origin,
    Profile,
    Since,
    Target,
    Tenant,
    Until,
    explained,
    fail,
    make_wanted,
    missing,
)
from tiermesh.outcomes.commands.table import print_table
from tiermesh.outcomes.evaluation import EvaluationError, from_outcomes, read_evaluation
from tiermesh.outcomes.models import Evaluated, TierPrice, TypeReport, report
from tiermesh.shared.config import load_config
from tiermesh.shared.local_mesh import find_mesh
from tiermesh.shared.outcomes import is_outcome_line


def register(app: typer.Typer) -> None:
    """Adds the command group."""
    group = typer.Typer(help="What evaluation sets and the log say about the tiers.", no_args_is_help=True)
    group.callback()(_group)
    example = "Example: tiermesh report models evaluation.jsonl --config mesh/profiles/local.yaml --within 3"
    group.command("models", epilog=example)(models)
    app.add_typer(group, name="report")


def _group() -> None:
    # One command alone would take the place of its group.
    return


def models(
    logs: Logs = None,
    config: Annotated[
        Path | None,
        typer.Option(help="Configuration with the tiers and their prices; that of the running mesh by default."),
    ] = None,
    within: Annotated[
        float, typer.Option("--within", min=0, max=100, help="Points that a tier may be behind the best.")
    ] = 3.0,
    picture: Annotated[Path | None, typer.Option("--picture", help="Draw it too: a .png or .svg file.")] = None,
    since: Since = None,
    until: Until = None,
    tenant: Tenant = "",
    as_json: AsJson = False,
    target: Target = None,
    profile: Profile = None,
) -> None:
    """Show each tier's score per kind of work, and the cheapest that is as good as the best but for a few points.

    FILE is an evaluation set, one JSON object a line: task_type, scores by tier (0 to 1), and, where known,
    prompt_tokens and answer_tokens; or records exported from the log. Without one, the log's feedback is used.
    """
    with explained():
        tiers, prices = _tiers(config, profile)
        origin = Origin(logs or (), target, profile)
        wanted = make_wanted(since=since, until=until, tenant=tenant, with_feedback=True)
        try:
            rows = _read_files(logs) if logs and not _are_outcomes(logs) else list(from_outcomes(origin.read(wanted)))
            names = tiers or sorted({name for row in rows for name in row.scores})
            found = report(rows, tiers=names, within=within / 100, prices=prices)
        except (EvaluationError, ValueError) as error:
            fail(f"{', '.join(map(str, logs)) if logs else 'the log'}: {error}", WRONG)
        if picture is not None:
            _draw(found, within, picture)
    if as_json:
        typer.echo(json.dumps([asdict(each) for each in found], indent=1))
    else:
        _show(found, within)


def _tiers(path: Path | None, profile: str | None) -> tuple[list[str], dict[str, TierPrice]]:
    loaded = (
        load_config(path.absolute(), os.environ)
        if path is not None
        else find_mesh(os.environ, profile).config_in_force()[0]
    )
    prices = {tier.name: TierPrice(tier.price_in, tier.price_out) for tier in loaded.tiers}
    return [tier.name for tier in loaded.tiers], prices


def _are_outcomes(paths: Sequence[Path]) -> bool:
    with paths[0].open(encoding="utf-8") as lines:
        return is_outcome_line(next((line for line in lines if line.strip()), ""))


def _read_files(paths: Sequence[Path]) -> list[Evaluated]:
    found: list[Evaluated] = []
    for path in paths:
        try:
            with path.open(encoding="utf-8") as lines:
                found += read_evaluation(lines)
        except UnicodeDecodeError:
            raise EvaluationError("is not UTF-8") from None
    return found


def _show(found: Sequence[TypeReport], within: float) -> None:
    names = [each.tier for each in max(found, key=lambda one: len(one.tiers)).tiers]
    rows = []
    for kind in found:
        scores = {each.tier: each for each in kind.tiers}
        cells = [
            f"{100 * scores[name].score:.1f} ±{100 * scores[name].margin:.1f}" if name in scores else "-"
            for name in names
        ]
        pick = scores[kind.pick]
        behind = f"{100 * pick.gap:.1f} behind" if pick.gap else "the best"
        bound = f"{100 * pick.gap_bound:.1f}"
        saving = "-" if kind.saving is None else f"{kind.saving:.0%}"
        rows.append(
            [kind.task_type, str(kind.count), *cells, kind.pick, behind, bound, "yes" if kind.is_sure else "no", saving]
        )
    print_table(["task type", "requests", *names, f"enough (within {within:g})", "", "at most", "sure", "saves"], rows)
    unequal = [kind.task_type for kind in found if not kind.is_comparable]
    if unequal:
        typer.echo(
            f"\nThe scores of {', '.join(unequal)} cannot be compared: routing sent the easy requests to the small tiers."
            "\nLet some requests be answered by another tier at random (balance.exploration), or use an evaluation set."
        )


def _draw(found: Sequence[TypeReport], within: float, path: Path) -> None:
    try:
        from tiermesh.outcomes.picture import draw_models  # noqa: PLC0415 -- optional, and slow to import
    except ImportError as error:
        missing(error, "picture")
    try:
        draw_models(found, within, path)
    except ValueError as error:
        fail(f"{path}: {error}", WRONG)
