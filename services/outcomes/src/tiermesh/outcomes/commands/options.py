"""What these commands have in common: which records, where they come from, how failures are told."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, NoReturn

import typer
from tiermesh.api.outcome.v1 import record_pb2
from tiermesh.outcomes.source import Wanted, find_log, parse_time, read_files, read_mesh
from tiermesh.shared.clock import SYSTEM_CLOCK
from tiermesh.shared.config import ConfigError
from tiermesh.shared.errors import TiermeshError
from tiermesh.shared.local_mesh import MeshNotFound
from tiermesh.shared.outcomes import OutcomeError

FAILED, WRONG, NOT_RUNNING = 1, 2, 3

Logs = Annotated[
    list[Path] | None,
    typer.Argument(
        metavar="[FILE]...",
        help="Records that were exported as JSON lines; without one, the log of the running mesh is read.",
        show_default=False,
    ),
]
Since = Annotated[
    str | None, typer.Option("--since", help="Requests from then on: 7d, 12h or 2026-11-30.", show_default=False)
]
Until = Annotated[str | None, typer.Option("--until", help="Requests before then.", show_default=False)]
Tenant = Annotated[str, typer.Option("--tenant", help="Only this tenant's requests.", show_default=False)]
Target = Annotated[
    str | None,
    typer.Option("--target", help="host:port of a log elsewhere, such as a forwarded port.", show_default=False),
]
Profile = Annotated[
    str | None,
    typer.Option("--profile", "-p", help="Profile of the mesh that is meant, where several run.", show_default=False),
]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON.")]


@dataclass(frozen=True, slots=True)
class Origin:
    """Where records come from."""

    files: Sequence[Path] = ()
    target: str | None = None
    profile: str | None = None

    def read(self, wanted: Wanted) -> Iterator[record_pb2.Outcome]:
        """Yields the wanted records.

        Raises:
            OutcomeError: a file is not what it should be.
            TiermeshError: the log does not answer.
            MeshNotFound: no mesh runs here.
        """
        if self.files:
            return read_files(self.files, wanted)
        return read_mesh(find_log(os.environ, target=self.target, profile=self.profile), wanted)


def make_wanted(*, since: str | None, until: str | None, tenant: str = "", **other: bool | int) -> Wanted:
    """Returns which records are meant; a wrong time ends the command."""
    now = datetime.fromtimestamp(SYSTEM_CLOCK.wall(), UTC)
    try:
        begin = None if since is None else parse_time(since, now=now)
        end = None if until is None else parse_time(until, now=now)
    except ValueError as error:
        fail(str(error), WRONG)
    return Wanted(
        begin,
        end,
        tenant,
        with_feedback=bool(other.get("with_feedback")),
        with_text=bool(other.get("with_text")),
        limit=int(other.get("limit", 0)),
    )


@contextmanager
def explained() -> Iterator[None]:
    """Prints a failure as a person should read it, and turns it into an exit status."""
    try:
        yield
    except TiermeshError as error:
        fail(f"{error.reason}: {error.message}\nWhat to do: {error.row.advice}", FAILED)
    except (ConfigError, OutcomeError) as error:
        fail(str(error), WRONG)
    except MeshNotFound as error:
        fail(f"{error}, name a log elsewhere with --target, or a file of exported records", NOT_RUNNING)
    except OSError as error:
        fail(f"{error.filename or ''}: {error.strerror or error}", FAILED)


def fail(message: str, status: int) -> NoReturn:
    """Ends the command.

    Raises:
        Exit: always.
    """
    typer.echo(message, err=True)
    raise typer.Exit(status)


def missing(error: ImportError, extra: str) -> NoReturn:
    """Ends the command for want of an optional package.

    Raises:
        Exit: always.
    """
    fail(f"{error.name} is not installed; it comes with: pip install 'tiermesh-outcomes[{extra}]'", FAILED)
