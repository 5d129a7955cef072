"""`tiermesh calibrate-thresholds`: what the small tier should take at most."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer
from tiermesh.client.cli._connection import Profile, Target, explained, find_ingress, run
from tiermesh.client.cli._evaluation import judged_lines, lacks_judgement
from tiermesh.client.thresholds import Choice, Known, Price, choose, read_known
from tiermesh.client.traffic import read_traffic
from tiermesh.shared.config import ConfigError, TierConfig, TiermeshConfig, load_config
from tiermesh.shared.outcomes import OutcomeError, is_outcome_line

_EXAMPLE = (
    "Example: tiermesh calibrate-thresholds outcomes.jsonl --config mesh/profiles/local.yaml --target-strong-share 0.2"
)


def register(app: typer.Typer) -> None:
    """Adds the command."""
    app.command("calibrate-thresholds", epilog=_EXAMPLE)(calibrate_thresholds)


def calibrate_thresholds(
    outcomes: Annotated[
        Path,
        typer.Argument(
            help="JSON lines with weak_correct, strong_correct, and complexity or prompt: a mesh that runs is asked how complex"
            " prompts are; or records of `tiermesh outcomes export`, whose feedback counts."
        ),
    ],
    config: Annotated[Path, typer.Option("--config", help="Configuration file with the tiers and their prices.")],
    target_strong_share: Annotated[
        float | None,
        typer.Option("--target-strong-share", min=0, max=1, help="Send at most this share to the large tier."),
    ] = None,
    target_quality: Annotated[
        float | None,
        typer.Option("--target-quality", min=0, max=1, help="Keep at least this share of the large tier's quality."),
    ] = None,
    small: Annotated[
        str | None, typer.Option("--small", help="Small tier; the cheapest with a model by default.")
    ] = None,
    large: Annotated[str | None, typer.Option("--large", help="Large tier; the strongest by default.")] = None,
    out: Annotated[
        Path | None, typer.Option("--out", help="Write the change to a file instead of printing it.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print what is expected as JSON.")] = False,
    target: Target = None,
    profile: Profile = None,
) -> None:
    """Choose the small tier's max_complexity from requests with known outcomes; print it as a change of the configuration."""
    with explained():
        loaded = load_config(config.absolute(), os.environ)
        first, last = _tier(loaded, small, 0), _tier(loaded, large, -1)
        try:
            known, basis = _read(outcomes, first.name, last.name, target, profile)
            choice = choose(
                known,
                Price(first.price_in, first.price_out),
                Price(last.price_in, last.price_out),
                excluded=first.excluded_task_types,
                target_strong_share=target_strong_share,
                target_quality=target_quality,
            )
        except (OSError, ValueError, OutcomeError) as error:
            raise ConfigError(f"{outcomes}: {error}") from None
    change = _change(first, last, choice, len(known), config.name, basis)
    if out is not None:
        out.write_text(change, "utf-8")
    if as_json:
        typer.echo(json.dumps({"requests": len(known), "before": first.max_complexity, **asdict(choice)}, indent=2))
    elif out is None:
        typer.echo(change, nl=False)
    else:
        typer.echo(f"wrote {out}: max_complexity {choice.max_complexity:g} for {first.name}")


def _read(path: Path, small: str, large: str, target: str | None, profile: str | None) -> tuple[list[Known], list[str]]:
    """Returns the requests, and what their outcomes rest on, in lines."""
    lines = [line for line in path.read_text("utf-8").split("\n") if line.strip()]
    first = next(iter(lines), "")
    if lacks_judgement(first):
        if not all(map(lacks_judgement, lines)):
            raise ValueError("some lines have a complexity and some have none; give all of them one, or none")
        door = find_ingress(os.environ, target=target, profile=profile)
        return read_known(run(judged_lines(door, lines))), [f"complexity: as the mesh at {door.target} judges now"]
    if not is_outcome_line(first):
        return read_known(lines), []
    traffic = read_traffic(lines, small=small, large=large)
    return traffic.known, [
        f"{seen.tier}: fitted to {seen.judged} judged answers, {seen.right_share:.1%} right, of complexity"
        f" {seen.lowest:.2f} to {seen.highest:.2f}; beyond that it is a guess"
        for seen in (traffic.small, traffic.large)
    ]


def _tier(config: TiermeshConfig, name: str | None, place: int) -> TierConfig:
    models = [tier for tier in config.tiers if tier.backend != "rules"]
    if name is None and models:
        return models[place]
    try:
        return config.tier(name or "")
    except KeyError:
        raise ConfigError(f"no tier {name!r}; there are: {', '.join(tier.name for tier in config.tiers)}") from None


def _change(small: TierConfig, large: TierConfig, choice: Choice, count: int, base: str, basis: Sequence[str]) -> str:
    relative = choice.quality / max(1e-9, choice.quality_of_large)
    lines = [
        f"# Expected, from {count} requests with known outcomes (escalation and load are not foreseen):",
        f"#   to {large.name}: {choice.strong_share:.1%} of requests",
        f"#   quality: {choice.quality:.1%} right, {relative:.1%} of {large.name}'s {choice.quality_of_large:.1%}",
    ]
    if choice.cost_of_large > 0:
        saved = 1 - choice.cost / choice.cost_of_large
        lines.append(
            f"#   cost: {choice.cost:.6g}, {saved:.1%} less than {large.name} alone ({choice.cost_of_large:.6g})"
        )
    else:
        lines.append("#   cost: unknown; the tiers have no prices or the requests no token counts")
    lines += [f"#   {line}" for line in basis]
    lines += [
        f"# before: max_complexity {small.max_complexity:g}",
        f"extends: {base}",
        "tiers:",
        f"  - name: {small.name}",
        f"    max_complexity: {choice.max_complexity:g}",
    ]
    return "\n".join(lines) + "\n"
