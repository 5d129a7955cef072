"""Opens the Redis that a URL names: one server, the master that Sentinels name, or a cluster."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from functools import partial
from typing import Any, cast

from redis.asyncio import BlockingConnectionPool, ConnectionPool, Redis
from tiermesh.cache.adapters.redis import RedisStore
from tiermesh.cache.adapters.redis_cluster import RedisClusterStore, make_cluster
from tiermesh.cache.adapters.redis_options import client_options
from tiermesh.cache.adapters.redis_rivals import RedisSentinelStore
from tiermesh.cache.adapters.redis_sentinel import make_member, make_sentinel_pool
from tiermesh.shared.config import ConfigError

_CONNECTIONS = 32
SOCKET_TIMEOUT_S = 1.0
"""Ends operations that nobody waits for any more; far above what a caller waits."""
_CLUSTER = "+cluster://"
_SENTINEL = "+sentinel://"


@asynccontextmanager
async def open_redis_store(
    url: str, *, connections: int = _CONNECTIONS, socket_timeout_s: float = SOCKET_TIMEOUT_S
) -> AsyncIterator[RedisStore]:
    """Opens a pool that connects on first use, so that a Redis that is down is no hindrance.

    Args:
        url: `redis://`, `rediss://` or `unix://` of a server; `redis+cluster://` or `rediss+cluster://` of any node
            of a cluster; `redis+sentinel://` or `rediss+sentinel://` of Sentinels, see `redis_sentinel`. It may carry a
            password and is never shown.
        connections: Most connections, to each node of a cluster; further operations wait for one.
        socket_timeout_s: Longest wait for one reply or one connection.

    Raises:
        ConfigError: the URL is not one.
    """
    async with AsyncExitStack() as stack:
        try:
            if _CLUSTER in url:
                plain = url.replace(_CLUSTER, "://", 1)
                cluster = make_cluster(plain, connections=connections, socket_timeout_s=socket_timeout_s)
                stack.push_async_callback(cluster.aclose)
                store: RedisStore = RedisClusterStore(cluster)
            elif _SENTINEL in url:
                sentinel, primary = make_sentinel_pool(
                    url.replace(_SENTINEL, "://", 1), connections=connections, socket_timeout_s=socket_timeout_s
                )
                stack.push_async_callback(sentinel.aclose)
                store = RedisSentinelStore(
                    _client_of(primary, stack),
                    primary=lambda: primary.master_address,
                    members=partial(sentinel.members, primary.service_name),
                    connect=partial(make_member, primary),
                )
            else:
                pool = _make_pool(url, connections=connections, socket_timeout_s=socket_timeout_s)
                store = RedisStore(_client_of(pool, stack))
        except (ValueError, TypeError) as error:
            raise ConfigError(
                f"REDIS_URL or cache.redis_url: {error}; write redis://host:port/0, rediss://..., unix:///path, "
                "redis+cluster://host:port for a cluster, or redis+sentinel://host:port,host:port/service for Sentinels"
            ) from None
        yield store


def _client_of(pool: ConnectionPool, stack: AsyncExitStack) -> Redis:
    """Returns a client of a pool, and leaves both to be closed."""
    stack.push_async_callback(pool.aclose)
    client = Redis(connection_pool=pool)
    stack.push_async_callback(client.aclose)
    return client


def _make_pool(url: str, *, connections: int, socket_timeout_s: float) -> BlockingConnectionPool:
    pool = BlockingConnectionPool.from_url(
        url,
        max_connections=connections,
        timeout=socket_timeout_s,
        socket_timeout=socket_timeout_s,
        socket_connect_timeout=socket_timeout_s,
        **client_options(),
    )
    # Wrong options only show when a connection is made; this one is not opened.
    cast("Any", pool).make_connection()
    return pool
