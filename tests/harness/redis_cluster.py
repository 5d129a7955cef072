"""A real Redis Cluster of processes on free ports: three masters, and a replica of the first."""

from __future__ import annotations

import contextlib
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from harness.redis_process import RedisProcess, options, until

MASTERS = 3
_SLOTS = 16384
_BUS = 10_000
"""How far above its port a node listens to the others."""


class Node(RedisProcess):
    """One process of the cluster."""

    def __init__(self, folder: Path) -> None:
        super().__init__(_free_port())
        self._folder = folder

    def start(self) -> None:
        """Starts it and returns when it answers."""
        cluster = {
            "cluster_enabled": "yes",
            "cluster_require_full_coverage": "no",
            # The replica takes over when a test says so, and not when a node had no core for a while.
            "cluster_replica_no_failover": "yes",
            "cluster_node_timeout": 30_000,
        }
        self.run(*options(self._folder, self.port, **cluster | {"appendonly": "yes"}))

    def replicated(self) -> bool:
        """Waits until its replica has all that it has."""
        with self.client() as client:
            # WAIT is about what came before it on its own connection: without this, nothing.
            client.ping()
            return client.execute_command("WAIT", 1, 20_000) == 1


class RealCluster:
    """Nodes 0 to 2 are masters, node 3 is the replica of node 0."""

    def __init__(self, folder: Path) -> None:
        self.nodes = [Node(folder / str(number)) for number in range(MASTERS + 1)]

    @property
    def url(self) -> str:
        """Where to begin."""
        return f"redis+cluster://127.0.0.1:{self.nodes[MASTERS - 1].port}"

    def start(self) -> None:
        """Starts all nodes and makes one cluster of them."""
        for node in self.nodes:
            node.start()
        first, *others = self.nodes
        share = _SLOTS // MASTERS + 1
        for number in range(MASTERS):
            slots = range(number * share, min(_SLOTS, (number + 1) * share))
            self.nodes[number].say("CLUSTER ADDSLOTS", *slots)
        for node in others:
            node.say("CLUSTER MEET", "127.0.0.1", first.port)
        until(lambda: all(self._knows_all(node) for node in self.nodes), "the nodes to meet")
        replica = self.nodes[MASTERS]
        master = first.say("CLUSTER MYID")
        until(lambda: replica.say("CLUSTER REPLICATE", master), "the replica")
        until(lambda: replica.replication().get("master_link_status") == "up", "replication")
        until(lambda: all(self._is_ok(node) for node in self.nodes), "the cluster")

    def cut_off(self, *, master: int = 0) -> None:
        """Has the replica follow a master and lose the connection to it: what is written from now on is lost with the master."""
        replica = self.nodes[MASTERS]
        self.follow(master)
        replica.say("CONFIG", "SET", "masterauth", "wrong")
        replica.say("CLIENT", "KILL", "TYPE", "master")
        until(lambda: not self.nodes[master].replication()["connected_slaves"], "the connection to end")

    def follow(self, master: int) -> None:
        """Has the replica follow a master; returns when it has all that there was."""
        replica, name = self.nodes[MASTERS], self.nodes[master].say("CLUSTER MYID")
        until(lambda: replica.say("CLUSTER REPLICATE", name), "the replica")
        until(lambda: self._is_followed(master), "replication")

    def _is_followed(self, master: int) -> bool:
        said = self.nodes[MASTERS].replication()
        return said["master_port"] == self.nodes[master].port and said["master_link_status"] == "up"

    def take_over(self) -> None:
        """Makes the replica the master of the first node's slots, as a failover does."""
        until(lambda: self.nodes[MASTERS].say("CLUSTER FAILOVER", "TAKEOVER"), "failover")

    def kill(self) -> None:
        """Ends all nodes."""
        for node in self.nodes:
            node.kill()

    def _knows_all(self, node: Node) -> bool:
        return len(_lines(node.say("CLUSTER NODES"))) == len(self.nodes)

    def _is_ok(self, node: Node) -> bool:
        return b"cluster_state:ok" in _bytes(node.say("CLUSTER INFO"))


@contextmanager
def real_cluster(folder: Path) -> Iterator[RealCluster]:
    """Starts a cluster and ends it, whatever state a test leaves it in."""
    cluster = RealCluster(folder)
    try:
        cluster.start()
        yield cluster
    finally:
        cluster.kill()


def _bytes(reply: object) -> bytes:
    if isinstance(reply, dict):
        return "\n".join(f"{name}:{value}" for name, value in reply.items()).encode()
    return reply if isinstance(reply, bytes) else str(reply).encode()


def _lines(reply: object) -> list[object]:
    return list(reply) if isinstance(reply, dict) else _bytes(reply).splitlines()


def _free_port() -> int:
    while True:
        with socket.socket() as probe, socket.socket() as bus:
            probe.bind(("127.0.0.1", 0))
            port = int(probe.getsockname()[1])
            if port + _BUS > 65_535:
                continue
            with contextlib.suppress(OSError):
                bus.bind(("127.0.0.1", port + _BUS))
                return port
