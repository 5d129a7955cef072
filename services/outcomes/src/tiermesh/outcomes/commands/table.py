"""Tables for the terminal and for files."""

from __future__ import annotations

import re
import sys
from collections.abc import Sequence

from rich.console import Console
from rich.table import Table

PIPED_WIDTH = 160
"""Columns where nobody looks at a terminal."""
_NUMBER = re.compile(r"[-+~<>±]?[\d.,]+ ?(?:%|ms|pt)?|-")


def print_table(titles: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """Prints a table without lines; a column whose cells are all numbers is aligned to the right."""
    console = Console(highlight=False, width=None if sys.stdout.isatty() else PIPED_WIDTH)
    table = Table(box=None, pad_edge=False, header_style="bold" if console.is_terminal else "")
    for n, title in enumerate(titles):
        numeric = bool(rows) and all(_NUMBER.fullmatch(row[n]) for row in rows)
        table.add_column(title, justify="right" if numeric else "left", overflow="fold")
    for row in rows:
        table.add_row(*row)
    console.print(table, markup=False)
