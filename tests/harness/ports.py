"""Free ports for servers that cannot choose their own."""

from __future__ import annotations

import os
import random
import socket

SPAN = 600
"""Ports that one mesh may use from its base on: fixed ports, then the blocks of its services."""


def _is_free(port: int) -> bool:
    with socket.socket() as probe:
        # As servers do: connections of a mesh that ended a minute ago do not hold its ports; one that listens does.
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return False
    return True


def free_port_base() -> int:
    """Returns the first port of a block of `SPAN` whose commonly used ports are free.

    The block lies below the range from which Linux takes ports for outgoing connections.
    """
    chooser = random.Random(os.urandom(8))
    for _ in range(50):
        base = chooser.randrange(12_000, 31_000 - SPAN, 10)
        used = [base + n for n in (*range(10), *range(100, SPAN, 20))]
        if all(_is_free(port) for port in used):
            return base
    raise RuntimeError("no free block of ports in 12000-31000; see `ss -ltn` for what holds them")


def network_environment(base: int) -> dict[str, str]:
    """Returns the environment that moves a whole mesh to the ports from `base` on."""
    names = ("INGRESS_PORT", "ADMIN_PORT", "XDS_PORT", "MESH_PORT", "REDIS_PORT", "TRACES_PORT")
    ports = {name: base + n for n, name in enumerate(names)} | {"SERVICE_PORT_BASE": base + 100}
    return {f"TIERMESH__NETWORK__{name}": str(port) for name, port in ports.items()}
