"""`tiermesh rules`: looks for mistakes in a rules file that the mesh would accept."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer
from tiermesh.client.cli._connection import FAILED, explained
from tiermesh.shared.config import ConfigError, load_config
from tiermesh.shared.rules.lint import Finding, lint_text


def register(app: typer.Typer) -> None:
    """Adds the command group."""
    group = typer.Typer(help="Look for mistakes in rules.", no_args_is_help=True)
    group.command("lint", epilog="Example: tiermesh rules lint mesh/profiles/rules.yaml")(lint)
    # A group of one command would otherwise be that command.
    group.callback()(lambda: None)
    app.add_typer(group, name="rules")


def lint(
    files: Annotated[list[Path], typer.Argument(help="Rules files.")],
    config: Annotated[
        Path | None, typer.Option("--config", help="Configuration whose tenants the rules may name.")
    ] = None,
    strict: Annotated[bool, typer.Option("--strict", help="Exit with 1 for warnings too.")] = False,
    quiet: Annotated[
        bool, typer.Option("--quiet", "-q", help="Leave notes out: what is needless but harmless.")
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
) -> None:
    """Report rules that can never match or never count, contradictions, and words that never decide.

    Exits with 1 if there is an error, with 0 if there are at most warnings and notes.
    """
    with explained():
        tenants = None if config is None else [t.name for t in load_config(config.absolute(), os.environ).tenants]
        found = {file: lint_text(_read(file), file, tenants=tenants) for file in files}
    if quiet:
        found = {file: [finding for finding in some if finding.severity != "note"] for file, some in found.items()}
    everything = [finding for some in found.values() for finding in some]
    if as_json:
        report = [{"file": str(file), **finding.as_dict()} for file, some in found.items() for finding in some]
        typer.echo(json.dumps({"findings": report, "counts": _counts(everything)}, indent=2, ensure_ascii=False))
    else:
        for file, some in found.items():
            for finding in some:
                typer.echo(_line(file, finding))
        counts = ", ".join(
            f"{count} {severity}{'' if count == 1 else 's'}" for severity, count in _counts(everything).items()
        )
        typer.echo(f"{len(files)} file{'' if len(files) == 1 else 's'}: {counts}")
    bad = {"error", "warning"} if strict else {"error"}
    if any(finding.severity in bad for finding in everything):
        raise typer.Exit(FAILED)


def _read(file: Path) -> str:
    try:
        return file.read_text(encoding="utf-8")
    except OSError as error:
        raise ConfigError(f"{file}: cannot be read ({error.strerror}); name an existing file") from None
    except UnicodeDecodeError as error:
        raise ConfigError(f"{file}: is not UTF-8: {error}") from None


def _counts(findings: Sequence[Finding]) -> dict[str, int]:
    return {severity: sum(f.severity == severity for f in findings) for severity in ("error", "warning", "note")}


def _line(file: Path, finding: Finding) -> str:
    where = f"{file}:{finding.line}" if finding.line else str(file)
    name = f" {finding.name}:" if finding.name else ""
    return f"{where}: {finding.severity} [{finding.kind}]{name} {finding.message}\n    {finding.place or '(file)'}: {finding.advice}"
