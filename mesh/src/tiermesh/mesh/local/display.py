"""What is seen while the mesh starts: a live table on a terminal, lines of text elsewhere."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Protocol

from rich.console import Console
from rich.live import Live
from rich.table import Table
from rich.text import Text


@dataclass(frozen=True, slots=True)
class Row:
    """How far one process is."""

    name: str
    stage: str
    """`starting`, `warming up`, `SERVING`, or what went wrong."""
    seconds: float
    """Since the start, or until it served."""

    @property
    def done(self) -> bool:
        """Whether nothing more is awaited of it."""
        return self.stage == "SERVING"


class Display(Protocol):
    """Shows progress."""

    def show(self, rows: Sequence[Row]) -> None:
        """Shows how far every process is."""
        ...

    def say(self, text: str) -> None:
        """Shows a line that stays."""
        ...


_QUIET_S = 15.0
"""After this long without a line it says what is still awaited."""


class LineDisplay:
    """One line whenever a process gets further, and now and then one about those that take long, such as engines that load."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._shown: dict[str, str] = {}
        self._spoke_s = 0.0

    def show(self, rows: Sequence[Row]) -> None:
        """Prints what has changed."""
        for row in rows:
            if self._shown.get(row.name) != row.stage:
                self._shown[row.name] = row.stage
                after = f" after {row.seconds:.1f} s" if row.done else ""
                self.say(f"  {row.name:<16} {row.stage}{after}")
                self._spoke_s = row.seconds
        awaited = [row for row in rows if not row.done]
        if awaited and (longest := max(row.seconds for row in awaited)) - self._spoke_s >= _QUIET_S:
            self.say(f"  {longest:.0f} s: still waiting for {', '.join(row.name for row in awaited)}")
            self._spoke_s = longest

    def say(self, text: str) -> None:
        """Prints a line."""
        self._console.print(text, markup=False, highlight=False, soft_wrap=True)


class TableDisplay:
    """A table that is rewritten in place."""

    def __init__(self, console: Console, live: Live) -> None:
        self._console = console
        self._live = live

    def show(self, rows: Sequence[Row]) -> None:
        """Rewrites the table."""
        table = Table(box=None, pad_edge=False)
        for title in ("process", "state", "time"):
            table.add_column(title, justify="right" if title == "time" else "left", min_width=8)
        for row in rows:
            style = "green" if row.done else "yellow" if row.stage in {"starting", "warming up"} else "red"
            table.add_row(row.name, Text(row.stage, style=style), f"{row.seconds:.1f} s")
        self._live.update(table)

    def say(self, text: str) -> None:
        """Prints a line above the table."""
        self._console.print(text, markup=False, highlight=False, soft_wrap=True)


@contextmanager
def open_display(console: Console) -> Iterator[Display]:
    """Opens the display that fits where the output goes."""
    if not console.is_terminal:
        yield LineDisplay(console)
        return
    with Live(console=console, refresh_per_second=8, transient=False) as live:
        yield TableDisplay(console, live)
