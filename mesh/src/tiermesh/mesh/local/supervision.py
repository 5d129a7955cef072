"""Talks to supervisord, by XML-RPC over its socket."""

from __future__ import annotations

import os
import subprocess
import time
import xmlrpc.client
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil
from supervisor.xmlrpc import SupervisorTransport
from tiermesh.mesh.local.errors import LocalError
from tiermesh.mesh.local.layout import StateLayout

_BAD_NAME, _NOT_RUNNING, _ALREADY_ADDED, _ALREADY_STARTED = 10, 70, 90, 60


@dataclass(frozen=True, slots=True)
class ProcessState:
    """What supervisord says of a process."""

    name: str
    state: str
    """`STARTING`, `RUNNING`, `BACKOFF`, `STOPPING`, `STOPPED`, `EXITED` or `FATAL`."""
    pid: int
    uptime_s: float
    exit_status: int
    error: str

    @property
    def is_up(self) -> bool:
        """Whether the process exists."""
        return self.state in {"STARTING", "RUNNING"}


@dataclass(frozen=True, slots=True)
class Changes:
    """What a new configuration of supervisord changes, by process name."""

    added: tuple[str, ...]
    changed: tuple[str, ...]
    removed: tuple[str, ...]


class Supervisor:
    """A running supervisord, or none: see `is_alive`."""

    def __init__(self, layout: StateLayout) -> None:
        self._layout = layout

    def _call(self, method: str, *arguments: Any) -> Any:
        transport = SupervisorTransport(None, None, f"unix://{self._layout.supervisor_socket}")
        with xmlrpc.client.ServerProxy("http://localhost", transport=transport) as proxy:
            return getattr(proxy.supervisor, method)(*arguments)

    def is_alive(self) -> bool:
        """Whether it answers."""
        try:
            self._call("getState")
        except (OSError, xmlrpc.client.Error):
            return False
        return True

    def pid(self) -> int | None:
        """Returns the process id, or None where it does not run."""
        try:
            return int(self._call("getPID"))
        except (OSError, xmlrpc.client.Error):
            return None

    def processes(self) -> tuple[ProcessState, ...]:
        """Returns the state of every process.

        Raises:
            LocalError: supervisord is gone.
        """
        try:
            found = self._call("getAllProcessInfo")
        except (OSError, xmlrpc.client.Error) as error:
            raise LocalError(
                f"the supervisor is gone ({error})",
                f"read {self._layout.supervisor_log}; `tiermesh down` clears what is left.",
            ) from None
        return tuple(
            ProcessState(
                name=each["name"],
                state=each["statename"],
                pid=each["pid"],
                uptime_s=max(0.0, each["now"] - each["start"]) if each["pid"] else 0.0,
                exit_status=each["exitstatus"],
                error=each["spawnerr"],
            )
            for each in found
        )

    def stop(self, name: str) -> None:
        """Stops a process and waits until it has ended; one that is not running is fine."""
        self._tolerant("stopProcess", name, allowed=(_NOT_RUNNING, _BAD_NAME))

    def start(self, name: str) -> None:
        """Starts a process without waiting for it."""
        self._tolerant("startProcess", name, False, allowed=(_ALREADY_STARTED,))

    def reload(self) -> Changes:
        """Reads the configuration file again and tells what is different; nothing is done yet."""
        added, changed, removed = self._call("reloadConfig")[0]
        return Changes(tuple(added), tuple(changed), tuple(removed))

    def add(self, name: str) -> None:
        """Starts a process of the configuration that was read last."""
        self._tolerant("addProcessGroup", name, allowed=(_ALREADY_ADDED,))

    def remove(self, name: str) -> None:
        """Stops a process and forgets it."""
        self.stop(name)
        self._tolerant("removeProcessGroup", name, allowed=(_BAD_NAME,))

    def shutdown(self) -> None:
        """Ends supervisord, and with it every process that is left."""
        try:
            self._call("shutdown")
        except (OSError, xmlrpc.client.Error):
            return  # it is gone already

    def _tolerant(self, method: str, *arguments: Any, allowed: tuple[int, ...]) -> None:
        try:
            self._call(method, *arguments)
        except xmlrpc.client.Fault as fault:
            if fault.faultCode not in allowed:
                raise


def start_supervisor(program: Path, layout: StateLayout, environ: Mapping[str, str]) -> Supervisor:
    """Starts supervisord in the background and returns when it answers.

    Raises:
        LocalError: it did not start.
    """
    folder = layout.supervisor_socket.parent
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    if folder.stat().st_uid != os.getuid():
        raise LocalError(f"{folder} belongs to another user", "set TIERMESH_STATE to a shorter path.")
    command = [str(program), "-c", str(layout.supervisor_conf)]
    done = subprocess.run(  # noqa: S603 -- our own program and file
        command, env=dict(environ), stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False
    )
    if done.returncode != 0:
        said = (done.stderr or done.stdout).strip()
        raise LocalError(f"the supervisor did not start: {said}", f"read {layout.supervisor_log}.")
    supervisor = Supervisor(layout)
    give_up = time.monotonic() + 10
    while not supervisor.is_alive():
        if time.monotonic() > give_up:
            raise LocalError("the supervisor does not answer after 10 s", f"read {layout.supervisor_log}.")
        time.sleep(0.05)
    return supervisor


def wait_gone(pid: int, seconds: float) -> bool:
    """Waits until a process has ended; returns whether it has."""
    try:
        psutil.Process(pid).wait(seconds)
    except psutil.NoSuchProcess:
        return True
    except psutil.TimeoutExpired:
        return False
    return True
