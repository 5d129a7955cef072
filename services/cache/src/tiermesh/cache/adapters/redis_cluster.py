"""Redis Cluster as the answer store: a tenant's answers are spread over all nodes.

Nothing that an answer needs is two keys of one slot. A lookup reads generation and entry side by side instead of at one
moment: whichever comes first, an answer of another generation is never found. The two streams that
replicas follow share a hash tag (see `redis_log`), so that one command reads both.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Collection, Sequence
from typing import Any

from redis.asyncio import ConnectionPool, Redis, RedisCluster
from redis.exceptions import RedisClusterException, ResponseError
from tiermesh.cache.adapters.redis import (
    CHANGES,
    MAX_CHANGES,
    WRITE_OVER,
    RedisStore,
    answer_of,
    is_replicated,
    reply_of,
)
from tiermesh.cache.adapters.redis_options import client_options
from tiermesh.cache.adapters.redis_script import RedisScript
from tiermesh.cache.adapters.run_lua import HOLDS, RELEASE
from tiermesh.cache.ports import Write
from tiermesh.cache.run_tokens import RunKeys

_PAGE = 1000
_AT_ONCE = 8
"""Answers that are written side by side; each takes up to two connections of a node, whose pool does not wait."""
_RUNS = RunKeys(tagged=True)
_NODE = 1 << 64
"""A cursor is that of a node, and the node's number above it."""


class RedisClusterStore(RedisStore):
    """An `AnswerStore` in a Redis Cluster."""

    def __init__(self, cluster: RedisCluster) -> None:
        # The commands that are used are the same; redis-py's two clients share no type that has them.
        client: Any = cluster
        super().__init__(client)
        self._cluster: Any = cluster
        self._write_over = RedisScript(client, WRITE_OVER + "return write_over(KEYS[1], ARGV[1], ARGV[2], ARGV[3])")
        self._release = RedisScript(client, HOLDS + RELEASE + "return release(KEYS[1], KEYS[2], ARGV[1])")

    async def read(self, generation_key: bytes, entry_key: bytes) -> tuple[bytes | None, bytes | None]:
        """Returns both values, each as of a moment during the call, None for what is not there."""
        generation, value = await asyncio.gather(self._string(generation_key), self._string(entry_key))
        return generation, value

    async def keep(self, writes: Sequence[Write]) -> Sequence[bool] | None:
        """Files answers, a few at a time; tells of each whether it was written."""
        generations = await self._generations({one.generation_key for one in writes})
        written: list[bool] = []
        for begin in range(0, len(writes), _AT_ONCE):
            some = writes[begin : begin + _AT_ONCE]
            kept = (self._keep_one(one, current=generations[one.generation_key]) for one in some)
            written += await asyncio.gather(*kept)
        return written

    async def _generations(self, keys: Collection[bytes]) -> dict[bytes, bytes | None]:
        found = await asyncio.gather(*(self._string(key) for key in keys))
        return dict(zip(keys, found, strict=True))

    async def _keep_one(self, one: Write, *, current: bytes | None) -> bool:
        """Writes an answer, then says so: whoever looks up meanwhile finds the claim or the answer."""
        written = False
        if current == one.generation:
            try:
                arguments: list[bytes | str | int] = [one.value, one.ttl_ms, one.tombstone or b""]
                written = bool(await reply_of(self._write_over([one.entry_key], arguments)))
            except ResponseError:
                # A node that has lost its slots to its replica.
                written = False
        after: list[Awaitable[Any]] = []
        if written and one.tells:
            after.append(self._cluster.xadd(CHANGES, {b"key": one.entry_key}, maxlen=MAX_CHANGES, approximate=True))
        if one.run_token:
            keys = [_RUNS.claim(one.run_token), _RUNS.events(one.run_token)]
            after.append(self._release(keys, [one.run_token]))
        if after:
            await answer_of(asyncio.gather(*after))
        return written

    async def secure(self, *keys: bytes) -> bool:
        """Waits until the replicas of every node that has one of these keys, or the log, have what was written there.

        Returns:
            False where one has not in time, or a node is a primary no longer.
        """
        try:
            nodes = {self._cluster.get_node_from_key(key) for key in (*keys, CHANGES)}
        except RedisClusterException:
            return False
        return all(await asyncio.gather(*(self._is_replicated(node) for node in nodes)))

    async def _is_replicated(self, node: Any) -> bool:
        # The client's own connections to a node cannot be held for two commands.
        pool = ConnectionPool(node.connection_class, max_connections=1, **node.connection_kwargs)
        async with Redis.from_pool(pool) as client:
            return await is_replicated(client)

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
        # A part that is gone must not take the others with it.
        require_full_coverage=False,
        **client_options(),
    )
