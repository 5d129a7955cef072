"""`tiermesh distill`: a training set for a small model."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any

import typer
from tiermesh.outcomes.commands.options import (
    FAILED,
    WRONG,
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
from tiermesh.outcomes.distill.manifest import make_manifest
from tiermesh.outcomes.distill.select import Example, Filters, Selected, select, training_line
from tiermesh.outcomes.export import whole_file
from tiermesh.shared.clock import SYSTEM_CLOCK

TRAIN, MANIFEST = "train.jsonl", "manifest.json"
"""Files of a training set."""


def register(app: typer.Typer) -> None:
    """Adds the command group."""
    group = typer.Typer(
        help="Training sets from traffic, for a small model to learn from a large one.", no_args_is_help=True
    )
    group.callback()(_group)
    group.command("export", epilog="Example: tiermesh distill export --tier l2 --tenant local --out training")(export)
    app.add_typer(group, name="distill")


def _group() -> None:
    # One command alone would take the place of its group.
    return


def export(
    out: Annotated[Path, typer.Option("--out", "-o", help=f"Folder to write {TRAIN} and {MANIFEST} into.")],
    tier: Annotated[list[str], typer.Option("--tier", help="Tier whose answers are to be learnt; may be repeated.")],
    logs: Logs = None,
    tenant: Tenant = "",
    all_tenants: Annotated[
        bool, typer.Option("--all-tenants", help="Mix the requests of all tenants into one training set.")
    ] = False,
    count: Annotated[int, typer.Option("--count", "-n", min=1, help="Most examples.")] = 1000,
    task_type: Annotated[
        list[str] | None,
        typer.Option("--task-type", help="Only this kind of work; may be repeated.", show_default=False),
    ] = None,
    judged_only: Annotated[bool, typer.Option("--judged-only", help="Only answers that somebody judged.")] = False,
    least_verdict: Annotated[
        float, typer.Option("--least-verdict", min=0, max=1, help="No answer that was judged worse than this.")
    ] = 0.5,
    clusters: Annotated[int, typer.Option("--clusters", min=0, help="Number of clusters; 0 chooses it.")] = 0,
    same: Annotated[
        float, typer.Option("--same", min=0, max=1, help="Likeness from which one of two requests is enough.")
    ] = 0.9,
    seed: Annotated[int, typer.Option("--seed", min=0, help="Of the clustering.")] = 0,
    allow_simulated: Annotated[
        bool, typer.Option("--allow-simulated", help="Take texts that a queueing model made up, to try the command.")
    ] = False,
    since: Since = None,
    until: Until = None,
    target: Target = None,
    profile: Profile = None,
) -> None:
    """Write typical requests with a large tier's answers, without duplicates and personal data, and a manifest.

    Only where outcomes.keep_text is on, and for requests since then.
    """
    if bool(tenant) == all_tenants:
        fail("say whose requests: --tenant NAME, or --all-tenants to mix them", WRONG)
    try:
        from tiermesh.outcomes.distill.clusters import sample  # noqa: PLC0415 -- optional, and slow to import
    except ImportError as error:
        missing(error, "distill")
    filters = Filters(frozenset(tier), frozenset(task_type or ()), least_verdict, judged_only, allow_simulated)
    wanted = make_wanted(since=since, until=until, tenant=tenant, with_text=True)
    with explained():
        selected = select(Origin(logs or (), target, profile).read(wanted), filters)
        if not selected.examples:
            fail(_why_none(selected), FAILED)
        texts = [example.prompt for example in selected.examples]
        sampled = sample(texts, count=count, clusters=clusters, same=same, seed=seed)
        written = [(selected.examples[chosen.index], chosen.cluster) for chosen in sampled.chosen]
        out.mkdir(parents=True, exist_ok=True)
        _write_lines(out / TRAIN, written)
        manifest = make_manifest(
            made=datetime.fromtimestamp(SYSTEM_CLOCK.wall(), UTC).isoformat(timespec="seconds"),
            tenant=tenant,
            window={"since": since, "until": until},
            filters=filters,
            selected=selected,
            sampled=sampled,
            written=written,
            files={TRAIN: out / TRAIN},
            settings={"count": count, "clusters": len(sampled.sizes), "same": same, "seed": seed},
        )
        _write_json(out / MANIFEST, manifest)
    typer.echo(
        f"wrote {out / TRAIN}: {len(written)} examples of {len(sampled.sizes)} clusters,"
        f" from {selected.read_count} records\nwrote {out / MANIFEST}"
    )
    typer.echo(manifest["licence"], err=True)


def _write_lines(path: Path, written: list[tuple[Example, int]]) -> None:
    with whole_file(path) as fresh, fresh.open("w", encoding="utf-8", newline="\n") as lines:
        for example, cluster in written:
            lines.write(json.dumps(training_line(example, cluster=cluster), ensure_ascii=False) + "\n")


def _write_json(path: Path, content: dict[str, Any]) -> None:
    with whole_file(path) as fresh:
        fresh.write_text(json.dumps(content, ensure_ascii=False, indent=1) + "\n", encoding="utf-8")


def _why_none(selected: Selected) -> str:
    reasons = ", ".join(f"{reason} {count}" for reason, count in selected.passed_over.most_common())
    hint = ""
    if selected.passed_over["no_text"] or not selected.read_count:
        hint = "; texts are kept only where outcomes.keep_text is on, and exported only with --with-text"
    return f"none of {selected.read_count} records can be an example ({reasons or 'there are none'}){hint}"
