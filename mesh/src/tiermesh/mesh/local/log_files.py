"""Reads the log files of the processes, and makes JSON lines readable."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

_KNOWN = ("timestamp", "level", "service", "event", "logger")
_CHUNK = 64 * 1024


def tail_of(path: Path, lines: int) -> list[str]:
    """Returns the last lines of a file, without reading all of it; none where it does not exist."""
    try:
        with path.open("rb") as file:
            size = file.seek(0, 2)
            data, position = b"", size
            while position > 0 and data.count(b"\n") <= lines:
                step = min(_CHUNK, position)
                position -= step
                file.seek(position)
                data = file.read(step) + data
    except OSError:
        return []
    return data.decode("utf-8", "replace").splitlines()[-lines:]


class LogFollower:
    """Reads what is added to a file, and goes on with the new file when it is rotated."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._position, self._inode = self._end()
        self._rest = b""

    def _end(self) -> tuple[int, int]:
        try:
            status = self._path.stat()
        except OSError:
            return 0, 0
        return status.st_size, status.st_ino

    def read(self) -> list[str]:
        """Returns the whole lines that have come since the last call; it does not wait."""
        size, inode = self._end()
        if inode != self._inode or size < self._position:
            self._position, self._inode, self._rest = 0, inode, b""
        if size <= self._position:
            return []
        with self._path.open("rb") as file:
            file.seek(self._position)
            data = file.read()
        self._position += len(data)
        *whole, self._rest = (self._rest + data).split(b"\n")
        return [line.decode("utf-8", "replace") for line in whole]


def parse_line(line: str, process: str) -> dict[str, Any]:
    """Returns a line as fields; one that is not JSON, such as Envoy's, becomes the event of its process."""
    if line.startswith("{"):
        try:
            fields = json.loads(line)
        except ValueError:
            fields = None
        if isinstance(fields, dict):
            # The process's own name is the one that `tiermesh logs` takes.
            return {**fields, "service": process}
    return {"service": process, "event": line}


def format_line(fields: dict[str, Any]) -> str:
    """Returns fields as one line for people: time, process, level, event, then everything else."""
    time = str(fields.get("timestamp", ""))[11:23]
    level = str(fields.get("level", ""))
    extra = " ".join(f"{name}={_short(value)}" for name, value in fields.items() if name not in _KNOWN)
    parts = [
        f"{time:<12}" if time else "",
        f"{fields['service']:<14}",
        f"{level:<7}" if level else "",
        str(fields.get("event", "")),
        extra,
    ]
    return " ".join(part for part in parts if part)


def _short(value: Any) -> str:
    if isinstance(value, list) and value and isinstance(value[0], dict) and "exc_type" in value[0]:
        return f"{value[0]['exc_type']}: {value[0].get('exc_value', '')}"
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
