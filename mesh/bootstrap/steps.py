"""Runs the programs that a step needs, and explains a failure: which step, why, what to do."""

from __future__ import annotations

import os
import queue
import subprocess
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from bootstrap.progress import Progress

_TAIL_LINES = 15


class StepFailed(Exception):
    """A step could not be done; printed as it is."""

    def __init__(self, step: str, why: str, advice: str, log: Path | None = None) -> None:
        super().__init__(step, why, advice)
        self.step = step
        self.why = why
        self.advice = advice
        self.log = log

    def __str__(self) -> str:
        lines = [f"step '{self.step}' failed: {self.why}", f"What to do: {self.advice}"]
        if self.log is not None:
            lines.append(f"Full output: {self.log}")
        return "\n".join(lines)


class Runner:
    """Runs programs with their output in one log file and their progress on the terminal."""

    def __init__(self, log: Path, progress: Progress, environ: Mapping[str, str]) -> None:
        self.log = log
        self.progress = progress
        self.environ = dict(environ)

    def run(
        self, command: Sequence[str | Path], *, extra: Mapping[str, str] | None = None, narrates: bool = False
    ) -> tuple[int, list[str]]:
        """Runs a program to its end.

        Args:
            command: Program and arguments.
            extra: Environment on top of this process's.
            narrates: Whether every line that it writes is meant to be shown.

        Returns:
            Exit status, and the last lines that it wrote.
        """
        words = [str(word) for word in command]
        self.log.parent.mkdir(parents=True, exist_ok=True)
        with self.log.open("a", encoding="utf-8") as log:
            log.write(f"\n$ {' '.join(words)}\n")
            try:
                child = subprocess.Popen(  # noqa: S603 -- commands are lists, built by our own steps
                    words,
                    stdout=subprocess.PIPE,
                    stderr=subprocess.STDOUT,
                    stdin=subprocess.DEVNULL,
                    env={**self.environ, **(extra or {})},
                    text=True,
                    encoding="utf-8",
                    errors="replace",
                )
            except OSError as error:
                log.write(f"{error}\n")
                return 127, [str(error)]
            tail: list[str] = []
            lines: queue.SimpleQueue[str | None] = queue.SimpleQueue()
            reader = threading.Thread(target=_read, args=(child, lines), daemon=True)
            reader.start()
            with child:
                try:
                    while (line := _next(lines, self.progress.tick)) is not None:
                        log.write(line)
                        log.flush()
                        self.progress.saw(f"progress: {line}" if narrates else line.rstrip("\n"))
                        tail = [*tail[-_TAIL_LINES:], line.rstrip("\n")]
                    return child.wait(), tail
                finally:
                    if child.poll() is None:
                        child.terminate()
                    reader.join()

    def must(
        self,
        command: Sequence[str | Path],
        *,
        step: str,
        advice: str,
        extra: Mapping[str, str] | None = None,
        narrates: bool = False,
    ) -> None:
        """Runs a program that has to succeed.

        Raises:
            StepFailed: it did not.
        """
        status, tail = self.run(command, extra=extra, narrates=narrates)
        if status != 0:
            raise StepFailed(step, explain(Path(str(command[0])).name, status, tail), advice, self.log)


def explain(program: str, status: int, tail: Sequence[str]) -> str:
    """Returns why a program failed, in its own last words."""
    said = "\n".join(f"  | {line}" for line in tail if line.strip())
    return f"{program} ended with status {status}" + (f"; its last lines:\n{said}" if said else " and said nothing")


def pip_advice(tail: Sequence[str]) -> str:
    """Returns what to do about a failed pip, by what it said."""
    text = "\n".join(tail)
    if "No space left" in text:
        return (
            "free some disk space (the base environment takes 0.5 GB, the engine environment 3.5 GB), then run again."
        )
    if "No matching distribution" in text or "Could not find a version" in text:
        return (
            "check that `pip config list` names an index that has the package for this Python; "
            "run again with another interpreter if it is new, for example `make up PYTHON=python3.11`."
        )
    return "check the network and pip's settings (`pip config list`), then run again: finished parts are kept."


def _read(child: subprocess.Popen[str], lines: queue.SimpleQueue[str | None]) -> None:
    assert child.stdout is not None
    for line in child.stdout:
        lines.put(line)
    lines.put(None)


def _next(lines: queue.SimpleQueue[str | None], tick: Callable[[], None]) -> str | None:
    while True:
        try:
            return lines.get(timeout=0.2)
        except queue.Empty:
            tick()


def new_log(folder: Path) -> Path:
    """Returns the log file of this run, and removes all but the newest few of earlier ones."""
    folder.mkdir(parents=True, exist_ok=True)
    for old in sorted(folder.glob("bootstrap-*.log"))[:-9]:
        old.unlink(missing_ok=True)
    return folder / f"bootstrap-{time.strftime('%Y%m%d-%H%M%S')}-{os.getpid()}.log"
