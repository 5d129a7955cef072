"""A real Redis on a free port that tests can kill, freeze and start again."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractAsyncContextManager, contextmanager
from typing import Any

from harness.ports import free_port_base
from harness.redis_process import RedisProcess
from tiermesh.cache.adapters.redis import RedisStore
from tiermesh.cache.adapters.redis_open import open_redis_store
from tiermesh.shared.config import TiermeshConfig
from tiermesh.shared.redis_server import make_redis_arguments

PATIENT_MS = 60_000
"""A limit for what would be an error of the machine's, in milliseconds."""


class RealRedis(RedisProcess):
    """A Redis process, started the way the mesh starts its embedded one."""

    def __init__(self, *, max_memory_mb: int = 16) -> None:
        super().__init__(free_port_base())
        self._config = TiermeshConfig.model_validate(
            {
                "tenants": [{"name": "local", "key_env": "KEY"}],
                "tiers": [{"name": "l0", "backend": "rules"}],
                "network": {"redis_port": self.port},
                "cache": {"max_memory_mb": max_memory_mb},
            }
        )

    @property
    def url(self) -> str:
        """Where it listens."""
        return f"redis://127.0.0.1:{self.port}/0"

    def patient_store(self, **options: Any) -> AbstractAsyncContextManager[RedisStore]:
        """Opens a store on it whose own limit a machine that stalls does not reach."""
        return open_redis_store(self.url, **{"socket_timeout_s": PATIENT_MS / 1000, **options})

    def start(self) -> None:
        """Starts it and returns when it answers."""
        self.run(*make_redis_arguments(self._config))


@contextmanager
def real_redis(*, max_memory_mb: int = 16) -> Iterator[RealRedis]:
    """Starts a Redis and ends it, whatever state a test leaves it in."""
    server = RealRedis(max_memory_mb=max_memory_mb)
    server.start()
    try:
        yield server
    finally:
        server.kill()
