"""Free ports for servers that cannot choose their own."""

from __future__ import annotations

import fcntl
import os
import random
import socket
import tempfile
from collections import deque
from functools import cache
from pathlib import Path

SPAN = 600
"""Ports that one mesh may use from its base on: fixed ports, then the blocks of its services."""
# Below the range from which Linux takes ports for outgoing connections, so that none of those takes a port of ours
# between the moment it is found free and the moment its server binds it.
_FIRST, _LAST = 12_000, 31_000
_ZONE = 1_900


def _is_free(port: int) -> bool:
    with socket.socket() as probe:
        # As servers do: connections of a mesh that ended a minute ago do not hold its ports; one that listens does.
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return False
    return True


@cache
def _zone() -> range:
    """Ports that no other run of the tests on this machine uses, until this process ends.

    Where there are more runs than zones, they share all of them, and trust that the port found free stays so.
    """
    folder = Path(tempfile.gettempdir()) / f"tiermesh-test-ports-{os.getuid()}"
    folder.mkdir(exist_ok=True)
    for first in range(_FIRST, _LAST, _ZONE):
        handle = os.open(folder / str(first), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            os.close(handle)
        else:
            # Left open: the lock goes with the process.
            return range(first, min(first + _ZONE, _LAST))
    return range(_FIRST, _LAST)


_recent: deque[int] = deque(maxlen=2)
"""Bases handed out last, whose ports nobody may have bound yet."""


def _is_apart(base: int) -> bool:
    # Every block of a service begins at a multiple of 20 from its base, and has ten replicas at most: shifted by ten,
    # two meshes lie between one another.
    return all(abs(base - other) >= SPAN or (base - other) % 20 == 10 for other in _recent)


def free_port_base() -> int:
    """Returns the first port of a block of `SPAN` whose commonly used ports are free, and not those of the last ones."""
    chooser = random.Random(os.urandom(8))
    zone = _zone()
    for _ in range(1000):
        base = chooser.randrange(zone.start, zone.stop - SPAN, 10)
        used = [base + n for n in (*range(10), *range(100, SPAN, 20))]
        if _is_apart(base) and all(_is_free(port) for port in used):
            _recent.append(base)
            return base
    raise RuntimeError(f"no free block of ports in {zone}; see `ss -ltn` for what holds them")


def network_environment(base: int) -> dict[str, str]:
    """Returns the environment that moves a whole mesh to the ports from `base` on."""
    names = ("INGRESS_PORT", "ADMIN_PORT", "XDS_PORT", "MESH_PORT", "REDIS_PORT", "TRACES_PORT")
    ports = {name: base + n for n, name in enumerate(names)} | {"SERVICE_PORT_BASE": base + 100}
    return {f"TIERMESH__NETWORK__{name}": str(port) for name, port in ports.items()}
