"""Where tables are printed: as wide as the terminal, or wide enough for a file."""

from __future__ import annotations

import sys

from rich.console import Console
from rich.table import Table

PIPED_WIDTH = 160
"""Columns where nobody looks at a terminal."""


def open_console() -> Console:
    """Returns the console of standard output."""
    return Console(highlight=False, width=None if sys.stdout.isatty() else PIPED_WIDTH)


def make_table(console: Console, *titles: str, right: tuple[str, ...] = ()) -> Table:
    """Returns an empty table without lines; columns named in `right` are aligned to the right."""
    table = Table(box=None, pad_edge=False, header_style="bold" if console.is_terminal else "")
    for title in titles:
        table.add_column(title, justify="right" if title in right else "left", overflow="fold")
    return table
