"""Finds every process that a mesh started, its workers included, whoever their parent is now."""

from __future__ import annotations

from pathlib import Path

import psutil

OWNER = "TIERMESH_SUPERVISED"
"""Set for supervisord and so inherited by all below it. It is not TIERMESH_STATE, which a user's shell may have set."""


def owner_of(process: psutil.Process) -> str | None:
    """Returns the state folder of the mesh that a process belongs to, or None."""
    try:
        environ = process.environ()
        if environ:
            return environ.get(OWNER)
        # Redis writes its title over its environment; supervisord starts everything in the state folder.
        folder = process.cwd()
    except (psutil.Error, OSError):
        return None
    return folder if (Path(folder) / "supervisord.conf").is_file() else None


def processes_of(state: Path) -> list[psutil.Process]:
    """Returns the live processes of the mesh with that state folder."""
    found = []
    for process in psutil.process_iter():
        try:
            if owner_of(process) == str(state) and process.status() != psutil.STATUS_ZOMBIE:
                found.append(process)
        except psutil.Error:
            continue
    return found


def end_all(processes: list[psutil.Process], grace_s: float = 3.0) -> None:
    """Ends processes, with SIGKILL after `grace_s`."""
    for process in processes:
        _quietly(process.terminate)
    _, left = psutil.wait_procs(processes, timeout=grace_s)
    for process in left:
        _quietly(process.kill)
    psutil.wait_procs(left, timeout=grace_s)


def _quietly(action: object) -> None:
    assert callable(action)
    try:
        action()
    except psutil.Error:
        return  # it has ended meanwhile
