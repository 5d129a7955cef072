"""`tiermesh cache`: commands about the answer cache, added to the command line where this package is installed.

Only the command line imports this; the service needs none of what it needs.
"""

from __future__ import annotations

import asyncio
import json
import os
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Annotated, Any

import typer
from tiermesh.cache.embedder_files import embedder_folder, is_fetched
from tiermesh.cache.invalidate_command import invalidate
from tiermesh.cache.ports import Embedder
from tiermesh.cache.semantic.scoring import score_pair
from tiermesh.cache.semantic.tune import Outcome, Scored, outcome, recommend
from tiermesh.shared.errors import ModelLoadFailed

_FAILED, _WRONG = 1, 2
_SHOWN = (0.7, 0.75, 0.8, 0.85, 0.9, 0.95)


def register(app: typer.Typer) -> None:
    """Adds the command group."""
    group = typer.Typer(
        help="The answer cache: ask ahead of time, forget answers, and choose how alike two questions must be.",
        no_args_is_help=True,
    )
    group.callback()(_group)
    group.command("tune", epilog="Example: tiermesh cache tune pairs.jsonl --target 0.001")(tune)
    group.command("invalidate", epilog="Example: tiermesh cache invalidate --model qwen2.5-7b-instruct")(invalidate)
    app.add_typer(group, name="cache")


def _group() -> None:
    # One command alone would take the place of its group.
    return


def tune(
    pairs: Annotated[
        Path,
        typer.Argument(
            help='JSON lines: {"stored": "...", "asked": "...", "same": true}, the best of your own traffic.'
        ),
    ],
    target: Annotated[
        float, typer.Option(min=0, max=1, help="Largest share of lookups that may be false hits.")
    ] = 0.001,
    least: Annotated[float, typer.Option(min=0, max=1, help="Recommend nothing below this.")] = 0.7,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Recommend cache.semantic_threshold from labelled pairs of questions."""
    rows = _read(pairs)
    folder = embedder_folder(os.environ)
    if not is_fetched(folder):
        _fail("there is no embedder on this machine; run: python -m tiermesh.cache.fetch_embedder", _FAILED)
    try:
        from tiermesh.cache.adapters.openvino_embedder import OpenvinoEmbedder  # noqa: PLC0415 -- optional, and slow to import
    except ImportError as error:
        _fail(f"{error.name} is missing; install tiermesh-cache[semantic]", _FAILED)
    with ThreadPoolExecutor(max_workers=1) as executor:
        try:
            embedder = OpenvinoEmbedder(folder, executor)
        except ModelLoadFailed as error:
            _fail(str(error), _FAILED)
        scored = asyncio.run(_score(rows, embedder))
    best = recommend(scored, target=target, least=least)
    table = [outcome(scored, threshold) for threshold in _SHOWN]
    if as_json:
        typer.echo(json.dumps({"recommended": _shares(best), "table": [_shares(row) for row in table], "n": len(rows)}))
        return
    typer.echo("threshold  hits of the same  false hits of all  (95 % at most)")
    for row in table:
        typer.echo(_line(row))
    typer.echo(f"\nset cache.semantic_threshold: {best.threshold:.3f}")
    typer.echo(_line(best))
    if best.false_hit_bound > target:
        typer.echo(f"{len(rows)} pairs cannot promise {target:.2%}: label more, or watch cache.semantic_shadow first")


async def _score(rows: list[dict[str, Any]], embedder: Embedder) -> list[Scored]:
    return [await score_pair(row["stored"], row["asked"], same=row["same"], embedder=embedder) for row in rows]


def _read(path: Path) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = []
    try:
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
            if not line.strip():
                continue
            row = json.loads(line)
            if not (isinstance(row, dict) and isinstance(row.get("stored"), str) and isinstance(row.get("asked"), str)):
                _fail(f"{path}:{number}: needs the texts `stored` and `asked`", _WRONG)
            if not isinstance(row.get("same"), bool):
                _fail(f"{path}:{number}: needs `same`, true or false", _WRONG)
            rows.append(row)
    except OSError as error:
        _fail(f"{path}: cannot be read ({error.strerror})", _WRONG)
    except ValueError:
        _fail(f"{path}: is not JSON lines in UTF-8", _WRONG)
    if not rows:
        _fail(f"{path}: has no pairs", _WRONG)
    return rows


def _fail(message: str, code: int) -> Any:
    typer.echo(f"error: {message}", err=True)
    raise typer.Exit(code)


def _line(row: Outcome) -> str:
    return f"{row.threshold:>9.3f}  {row.hit_rate:>16.1%}  {row.false_hit_rate:>17.2%}  {row.false_hit_bound:>14.2%}"


def _shares(row: Outcome) -> dict[str, float]:
    return {
        "threshold": row.threshold,
        "hit_rate": row.hit_rate,
        "false_hit_rate": row.false_hit_rate,
        "false_hit_bound": row.false_hit_bound,
    }
