"""`tiermesh drift`: how the distribution of requests has moved."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Sequence
from dataclasses import asdict
from datetime import UTC
from pathlib import Path
from typing import Annotated

import typer
from tiermesh.api.outcome.v1 import record_pb2
from tiermesh.outcomes.commands.options import (
    FAILED,
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
)
from tiermesh.outcomes.commands.table import print_table
from tiermesh.outcomes.drift.features import features_of
from tiermesh.outcomes.drift.measure import DRIFT, Marks, Measured, measure
from tiermesh.outcomes.drift.reference import (
    Reference,
    WrongReferenceError,
    count_window,
    make_reference,
    read_reference,
    write_reference,
)
from tiermesh.outcomes.export import whole_file
from tiermesh.outcomes.source import find_log, read_status


def register(app: typer.Typer) -> None:
    """Adds the command group."""
    group = typer.Typer(help="How requests, and how sure one is of them, have changed.", no_args_is_help=True)
    group.command("reference", epilog="Example: tiermesh drift reference --since 14d --until 7d --out reference.json")(
        reference
    )
    group.command("report", epilog="Example: tiermesh drift report outcomes.jsonl --reference reference.json")(report)
    app.add_typer(group, name="drift")


def reference(
    out: Annotated[Path, typer.Option("--out", "-o", help="File to write; set outcomes.drift_reference to it.")],
    logs: Logs = None,
    since: Since = None,
    until: Until = None,
    tenant: Tenant = "",
    target: Target = None,
    profile: Profile = None,
) -> None:
    """Make the distribution that later requests are compared with, from a time when all was well."""
    wanted = make_wanted(since=since, until=until, tenant=tenant)
    with explained():
        outcomes = list(Origin(logs or (), target, profile).read(wanted))
        try:
            made = make_reference([features_of(outcome) for outcome in outcomes], **_span(outcomes))
        except WrongReferenceError as error:
            fail(str(error), FAILED)
        with whole_file(out) as fresh:
            fresh.write_text(write_reference(made), encoding="utf-8")
    typer.echo(f"wrote {out}: {made.record_count} requests, features {', '.join(made.features)}")


def report(
    logs: Logs = None,
    against: Annotated[
        Path | None,
        typer.Option(
            "--reference",
            help="File of `tiermesh drift reference`; without one, what the running log itself measures is shown.",
            show_default=False,
        ),
    ] = None,
    since: Since = None,
    until: Until = None,
    tenant: Tenant = "",
    last: Annotated[int, typer.Option("--last", min=0, help="Only so many newest requests; 0 for all.")] = 0,
    watch: Annotated[float, typer.Option("--watch", min=0, help="PSI worth watching.")] = 0.1,
    alert: Annotated[float, typer.Option("--alert", min=0, help="PSI of a drift.")] = 0.25,
    check: Annotated[bool, typer.Option("--check", help="Exit with 1 where a feature has drifted.")] = False,
    as_json: AsJson = False,
    target: Target = None,
    profile: Profile = None,
) -> None:
    """Show how far each feature has moved, the furthest first."""
    with explained():
        if against is None:
            if logs or since or until or tenant or last:
                fail("records are compared with a file: name it with --reference", WRONG)
            found = _measured_by_mesh(find_log(os.environ, target=target, profile=profile))
        else:
            wanted = make_wanted(since=since, until=until, tenant=tenant, limit=last)
            found = _measure(_read(against), Origin(logs or (), target, profile).read(wanted), Marks(watch, alert))
    if as_json:
        typer.echo(json.dumps([asdict(each) for each in found], indent=1))
    else:
        _show(found)
    if check and any(each.state == DRIFT for each in found):
        raise typer.Exit(FAILED)


def _read(path: Path) -> Reference:
    try:
        return read_reference(path)
    except WrongReferenceError as error:
        fail(str(error), WRONG)


def _measure(made: Reference, outcomes: Iterable[record_pb2.Outcome], marks: Marks) -> list[Measured]:
    return measure(made, count_window(made, (features_of(outcome) for outcome in outcomes)), marks)


def _measured_by_mesh(target: str) -> list[Measured]:
    status = read_status(target)
    if not status.drift:
        fail(
            "the log measures no drift: write a reference with `tiermesh drift reference` and set"
            " outcomes.drift_reference to it, or compare now with --reference FILE",
            FAILED,
        )
    return [
        Measured(each.feature, each.psi, each.chance, each.window_count, each.reference_count, each.state)
        for each in status.drift
    ]


def _show(found: Sequence[Measured]) -> None:
    print_table(
        ["feature", "psi", "by chance up to", "requests", "reference", "state"],
        [
            [
                each.feature,
                f"{each.psi:.3f}",
                f"{each.chance:.3f}",
                str(each.window_count),
                str(each.reference_count),
                each.state.replace("_", " "),
            ]
            for each in found
        ],
    )


def _span(outcomes: Sequence[record_pb2.Outcome]) -> dict[str, str]:
    times = [outcome.arrived.ToDatetime(UTC) for outcome in outcomes]
    if not times:
        return {"since": "", "until": ""}
    return {"since": min(times).isoformat(timespec="seconds"), "until": max(times).isoformat(timespec="seconds")}
