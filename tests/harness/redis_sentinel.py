"""A real Redis with a replica, and a Sentinel that watches them, as processes on free ports."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from harness.ports import free_port_base
from harness.redis_process import RedisProcess, options, until

SERVICE = "mesh"
_LONG_MS, _SHORT_MS = 60_000, 500
"""Silence after which the Sentinel takes the primary for gone: a busy machine's pauses must not do so, a kill must soon."""


class Member(RedisProcess):
    """The primary, or its replica."""

    def __init__(self, folder: Path, port: int) -> None:
        super().__init__(port)
        self._folder = folder

    def start_server(self, *words: str) -> None:
        """Starts it and returns when it answers."""
        self.run(*options(self._folder, self.port, repl_diskless_sync_delay=0), *words)


class RealSentinel:
    """A primary, its replica, and the Sentinel."""

    def __init__(self, folder: Path) -> None:
        self._nobody = free_port_base()
        self.primary = Member(folder / "primary", self._nobody + 1)
        self.replica = Member(folder / "replica", self._nobody + 2)
        self.sentinel = RedisProcess(self._nobody + 3)
        self._config = folder / "sentinel.conf"

    @property
    def url(self) -> str:
        """Where to ask; the first of the two is not there."""
        return f"redis+sentinel://127.0.0.1:{self._nobody},127.0.0.1:{self.sentinel.port}/{SERVICE}"

    def start(self) -> None:
        """Starts all of them, and returns when the Sentinel knows the replica."""
        self.primary.start_server()
        self.replica.start_server("--replicaof", "127.0.0.1", str(self.primary.port))
        until(lambda: self.replica.replication().get("master_link_status") == "up", "replication")
        watched = f"sentinel monitor {SERVICE} 127.0.0.1 {self.primary.port} 1\n"
        patience = f"sentinel down-after-milliseconds {SERVICE} {_LONG_MS}\nsentinel failover-timeout {SERVICE} 2000\n"
        self._config.write_text(watched + patience, encoding="utf-8")
        place = ("--port", str(self.sentinel.port), "--bind", "127.0.0.1", "--dir", str(self._config.parent))
        self.sentinel.run(str(self._config), "--sentinel", *place)
        until(self._knows_the_replica, "the Sentinel")

    def fail(self) -> None:
        """Kills the primary, and lets the Sentinel notice."""
        self.primary.kill()
        self.sentinel.say("SENTINEL", "SET", SERVICE, "down-after-milliseconds", _SHORT_MS)

    def cut_off(self) -> None:
        """Has the replica lose the primary: what is written from now on is lost with it."""
        self.replica.say("CONFIG", "SET", "masterauth", "wrong")
        self.replica.say("CLIENT", "KILL", "TYPE", "master")
        until(lambda: not self.primary.replication()["connected_slaves"], "the connection to end")

    def fail_over(self) -> None:
        """Has the replica promoted while the primary lives."""
        until(lambda: self.sentinel.say("SENTINEL", "FAILOVER", SERVICE), "the failover to begin")

    def fail_over_unheard(self) -> None:
        """Does the same, and the old primary never hears of it: it goes on for good, as it does for seconds else."""
        self.primary.say("ACL", "SETUSER", "default", "-slaveof", "-replicaof")
        self.fail_over()
        until(lambda: self.replica.replication()["role"] == "master", "the promotion")
        until(lambda: self.named() == self.replica.port, "the Sentinel to name the new primary")

    def named(self) -> int:
        """The port of the primary, as the Sentinel has it."""
        with self.sentinel.client() as client:
            return int(client.sentinel_get_master_addr_by_name(SERVICE)[1])

    def kill(self) -> None:
        """Ends all of them."""
        for member in (self.sentinel, self.replica, self.primary):
            member.kill()

    def _knows_the_replica(self) -> bool:
        with self.sentinel.client() as client:
            replicas = client.sentinel_slaves(SERVICE)
        # Only one of which it has heard itself may be promoted.
        return any(replica["flags"] == "slave" and replica["master-link-status"] == "ok" for replica in replicas)


@contextmanager
def real_sentinel(folder: Path) -> Iterator[RealSentinel]:
    """Starts them and ends them, whatever state a test leaves them in."""
    sentinel = RealSentinel(folder)
    try:
        sentinel.start()
        yield sentinel
    finally:
        sentinel.kill()
