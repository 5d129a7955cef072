"""Redis Cluster as the answer store: a tenant's answers are spread over all nodes.

Nothing needs two keys of one slot. A lookup reads generation and entry side by side instead of at one
moment: whichever comes first, an answer of another generation is never found. The two streams that
replicas follow share a hash tag (see `redis_log`), so that one command reads both.
"""

from __future__ import annotations

import asyncio
from typing import Any

from redis.asyncio import RedisCluster
from redis.asyncio.retry import Retry
from redis.backoff import NoBackoff
from redis.maint_notifications import MaintNotificationsConfig
from tiermesh.cache.adapters.redis import RedisStore, answer_of

_PAGE = 1000
_NODE = 1 << 64
"""A cursor is that of a node, and the node's number above it."""


class RedisClusterStore(RedisStore):
    """An `AnswerStore` in a Redis Cluster."""

    def __init__(self, cluster: RedisCluster) -> None:
        # The commands that are used are the same; redis-py's two clients share no type that has them.
        client: Any = cluster
        super().__init__(client)
        self._cluster: Any = cluster

    async def read(self, generation_key: bytes, entry_key: bytes) -> tuple[bytes | None, bytes | None]:
        """Returns both values, each as of a moment during the call, None for what is not there."""
        # One key each: unlike GET, MGET says of a key of another type that it is not there.
        commands = (self._cluster.execute_command("MGET", key) for key in (generation_key, entry_key))
        (generation,), (value,) = await answer_of(asyncio.gather(*commands))
        return generation, value

    async def page(self, prefix: bytes, cursor: int) -> tuple[int, list[bytes]]:
        """Returns some of the keys of a node that begin with `prefix`, and the cursor of the next page, or node."""
        await answer_of(self._cluster.initialize())
        nodes = sorted(self._cluster.get_primaries(), key=lambda node: str(node.name))
        number, inner = divmod(cursor, _NODE)
        if number >= len(nodes):
            return 0, []
        scan = self._cluster.scan(inner, match=prefix + b"*", count=_PAGE, target_nodes=nodes[number])
        found, keys = await answer_of(scan)
        following = next(iter(found.values())) if isinstance(found, dict) else int(found)
        if following:
            return number * _NODE + int(following), list(keys)
        return ((number + 1) * _NODE if number + 1 < len(nodes) else 0), list(keys)


def make_cluster(url: str, *, connections: int, socket_timeout_s: float) -> RedisCluster:
    """Returns a client that finds the nodes on first use, so that a cluster that is down is no hindrance.

    Args:
        url: `redis://` or `rediss://` of any node.
        connections: Most connections to one node.
        socket_timeout_s: Longest wait for one reply or one connection.

    Raises:
        ValueError: the URL is not one.
        TypeError: it has options that a cluster does not.
    """
    return RedisCluster.from_url(
        url,
        max_connections=connections,
        socket_timeout=socket_timeout_s,
        socket_connect_timeout=socket_timeout_s,
        protocol=2,
        driver_info=None,
        maint_notifications_config=MaintNotificationsConfig(enabled=False),
        # A part that is gone must not take the others with it.
        require_full_coverage=False,
        retry=Retry(NoBackoff(), 0),
    )
