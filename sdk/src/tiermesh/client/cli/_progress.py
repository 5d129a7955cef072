"""How far a long command has come: a bar on a terminal, a line now and then where nobody looks at one, such as in cron's mail."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import typer
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
from tiermesh.shared.clock import SYSTEM_CLOCK, Clock

EVERY_S = 30.0
"""Seconds between two lines."""


class Lines:
    """Says how far it is in lines: at the start, then at most every `EVERY_S` seconds.

    Args:
        what: What is being done.
        total: Number of steps.
        done: Of those: how many were done before.
        say: Prints a line.
        clock: Tells the time.
    """

    def __init__(self, what: str, total: int, done: int, *, say: Callable[[str], None], clock: Clock) -> None:
        self._what = what
        self._total = total
        self._done = done
        self._say = say
        self._clock = clock
        self._spoke_s = clock.monotonic()
        self._line()

    def advance(self) -> None:
        """One more step is done."""
        self._done += 1
        self._now_and_then()

    def tell(self, what: str) -> None:
        """Something else is being done, or waited for."""
        self._what = what
        self._now_and_then()

    def _now_and_then(self) -> None:
        if self._clock.monotonic() - self._spoke_s >= EVERY_S:
            self._line()

    def _line(self) -> None:
        self._spoke_s = self._clock.monotonic()
        self._say(f"{self._what}: {self._done} of {self._total}")


class Bar:
    """Says it by a bar that is drawn in place."""

    def __init__(self, progress: Progress, what: str, total: int, done: int) -> None:
        self._progress = progress
        self._task = progress.add_task(what, total=total, completed=done)

    def advance(self) -> None:
        """One more step is done."""
        self._progress.advance(self._task)

    def tell(self, what: str) -> None:
        """Something else is being done, or waited for."""
        self._progress.update(self._task, description=what)


@contextmanager
def open_progress(what: str, *, total: int, done: int = 0, clock: Clock = SYSTEM_CLOCK) -> Iterator[Bar | Lines]:
    """Shows how far something is: on standard output if that is a terminal, else on standard error."""
    if not sys.stdout.isatty():
        yield Lines(what, total, done, say=lambda line: typer.echo(line, err=True), clock=clock)
        return
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns) as progress:
        yield Bar(progress, what, total, done)
