"""Files of the state folder."""

from __future__ import annotations

import hashlib
import os
from dataclasses import dataclass
from pathlib import Path

_LONGEST_SOCKET_PATH = 100
"""Linux allows 107 bytes; supervisord first binds a name of a few bytes more."""


@dataclass(frozen=True, slots=True)
class StateLayout:
    """Where a mesh keeps what it needs while it runs."""

    root: Path

    @property
    def logs(self) -> Path:
        """One file per process."""
        return self.root / "logs"

    @property
    def supervisor_conf(self) -> Path:
        """What supervisord is started with."""
        return self.root / "supervisord.conf"

    @property
    def supervisor_pid(self) -> Path:
        """Its process id."""
        return self.root / "supervisord.pid"

    @property
    def supervisor_log(self) -> Path:
        """Its own log."""
        return self.logs / "supervisord.log"

    @property
    def supervisor_socket(self) -> Path:
        """Its socket; in a short path of its own where the state folder's is too long for one."""
        inside = self.root / "supervisor.sock"
        if len(os.fsencode(inside)) <= _LONGEST_SOCKET_PATH:
            return inside
        name = hashlib.sha256(os.fsencode(self.root)).hexdigest()[:16]
        return Path(f"/tmp/tiermesh-{os.getuid()}") / f"{name}.sock"  # noqa: S108 -- the folder is made with mode 0700 and checked

    @property
    def envoy_bootstrap(self) -> Path:
        """What Envoy is started with."""
        return self.root / "envoy.json"

    @property
    def lock(self) -> Path:
        """Held while the mesh is being started or stopped."""
        return self.root / "lock"

    def log_of(self, process: str) -> Path:
        """Returns the log file of a process."""
        return self.logs / f"{process}.log"
