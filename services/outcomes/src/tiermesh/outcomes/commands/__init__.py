"""The command line's part of this package: `tiermesh outcomes`, `drift`, `report` and `distill`.

The command line loads it where this package is installed; the service needs none of it.
"""

from __future__ import annotations

import typer
from tiermesh.outcomes.commands import distill, drift, outcomes, report


def register(app: typer.Typer) -> None:
    """Adds the command groups."""
    for part in (outcomes, drift, report, distill):
        part.register(app)
