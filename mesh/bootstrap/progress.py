"""What the person at the terminal sees while a step runs."""

from __future__ import annotations

import os
import re
import shutil
import sys
import time
from typing import TextIO

_DOWNLOADING = re.compile(r"^\s*Downloading (\S+?)(?:\.metadata)?(?: \(([^)]+)\))?$")
_PACKAGE_FILE = re.compile(r"([A-Za-z0-9_.]+?)-(\d[^-]*)-.*\.whl$|([A-Za-z0-9_.]+?)-(\d.*)\.tar\.gz$")
_HEARTBEAT_S = 15.0
_SPINNER = "|/-\\"


def condense(line: str) -> str | None:
    """Returns what a line of installer output says in a few words, or None where it says nothing new."""
    if found := _DOWNLOADING.match(line):
        if line.rstrip().split(" (")[0].endswith(".metadata"):
            return None
        name = found[1].rsplit("/", 1)[-1]
        package = _PACKAGE_FILE.search(name)
        if package:
            name = f"{package[1] or package[3]} {package[2] or package[4]}"
        return f"downloading {name}" + (f" ({found[2]})" if found[2] else "")
    if line.startswith("Installing collected packages:"):
        count = line.count(",") + 1
        return f"unpacking {count} package{'s' if count > 1 else ''}"
    if line.startswith(("Building wheel", "Building editable")):
        return line[0].lower() + line[1:].rstrip(" .:")
    if line.startswith("progress: "):
        return line.removeprefix("progress: ").strip()
    return None


class Progress:
    """One line per step: on a terminal it is rewritten in place, elsewhere it is printed as things happen."""

    def __init__(self, out: TextIO = sys.stdout, *, live: bool | None = None) -> None:
        self._out = out
        self._live = out.isatty() and os.environ.get("TERM") != "dumb" if live is None else live
        self._title = ""
        self._doing = ""
        self._began = 0.0
        self._spoke = 0.0
        self._turn = 0

    def begin(self, title: str) -> None:
        """A step starts."""
        self._title, self._doing, self._began = title, "", time.monotonic()
        self._spoke = self._began
        if self._live:
            self.tick()
        else:
            self._print(f"{title} ...")

    def saw(self, line: str) -> None:
        """The step's program wrote a line."""
        doing = condense(line)
        if doing is None or doing == self._doing:
            return
        self._doing = doing
        if not self._live and not _is_small(doing):
            self._print(f"  {self._elapsed():4.0f} s  {doing}")
            self._spoke = time.monotonic()

    def tick(self) -> None:
        """Time passes."""
        if self._live:
            self._turn += 1
            width = shutil.get_terminal_size().columns - 1
            text = f"{_SPINNER[self._turn % 4]} {self._title}  {self._elapsed():.0f} s  {self._doing}"
            self._out.write(f"\r\x1b[K{text[:width]}")
            self._out.flush()
        elif time.monotonic() - self._spoke > _HEARTBEAT_S:
            self._spoke = time.monotonic()
            self._print(f"  {self._elapsed():4.0f} s  still at it{': ' + self._doing if self._doing else ''}")

    def end(self, outcome: str) -> None:
        """The step is over."""
        text = f"{self._title}: {outcome} ({self._elapsed():.0f} s)"
        self._out.write(f"\r\x1b[K{text}\n" if self._live else f"{text}\n")
        self._out.flush()

    def _elapsed(self) -> float:
        return time.monotonic() - self._began

    def _print(self, text: str) -> None:
        self._out.write(text + "\n")
        self._out.flush()


def _is_small(doing: str) -> bool:
    """Whether a download is too small to spend a line of a log file on."""
    return doing.startswith("downloading") and not re.search(r"\((?:\d{2,}(?:\.\d+)? MB|\d(?:\.\d+)? GB)\)", doing)
