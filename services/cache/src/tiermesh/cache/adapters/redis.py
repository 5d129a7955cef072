"""Redis as the answer store.

Nothing is retried here: a failed lookup is a miss, and retries live in Envoy alone. RESP2 without
the client's greetings makes a new connection cost one TCP handshake.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from typing import Any, cast

from redis.asyncio import Redis
from redis.exceptions import RedisClusterException, RedisError, ResponseError
from tiermesh.cache.tokens import TOMBSTONE_BYTES
from tiermesh.shared.errors import Unavailable

_CONNECTIONS = 32
_SOCKET_TIMEOUT_S = 1.0
"""Ends operations that nobody waits for any more; far above what a caller waits."""
_PAGE = 1000
_WRITE_OVER = f"""
local there = redis.pcall('getrange', KEYS[1], 0, {TOMBSTONE_BYTES})
if type(there) ~= 'string' then there = '' end
if #there == {TOMBSTONE_BYTES} and string.byte(there) == 0 and there ~= ARGV[3] then return 0 end
redis.call('set', KEYS[1], ARGV[1], 'px', ARGV[2])
return 1
"""
_SWAP = "if redis.call('get', KEYS[1]) == ARGV[1] then redis.call('set', KEYS[1], ARGV[2]) return 1 end return 0"


class RedisStore:
    """An `AnswerStore` in Redis, or in a server that speaks its protocol."""

    def __init__(self, client: Redis) -> None:
        self._client = client

    @property
    def client(self) -> Redis:
        """The pool, for what else is kept in the same Redis."""
        return self._client

    async def read(self, generation_key: bytes, entry_key: bytes) -> tuple[bytes | None, bytes | None]:
        """Returns both values as of one moment, None for what is not there."""
        generation, value = await answer_of(self._client.mget([generation_key, entry_key]))
        return generation, value

    async def settle(self, generation_key: bytes, fresh: bytes) -> bytes:
        """Returns the value of a key, after setting it to `fresh` if it had none."""
        present = await answer_of(self._client.get(generation_key))
        if present is None and not await answer_of(self._client.set(generation_key, fresh, nx=True)):
            present = await answer_of(self._client.get(generation_key))
        return fresh if present is None else bytes(present)

    async def write(self, key: bytes, value: bytes, ttl_ms: int) -> bool:
        """Sets a value that expires. Returns False where Redis is full or read-only."""
        try:
            return bool(await _reply(self._client.set(key, value, px=ttl_ms)))
        except ResponseError:
            return False

    async def write_over(self, key: bytes, value: bytes, ttl_ms: int, tombstone: bytes) -> bool:
        """Does the same, unless another tombstone than this one lies there; tells whether it was written."""
        try:
            return bool(await _reply(cast("Any", self._client.eval(_WRITE_OVER, 1, key, value, ttl_ms, tombstone))))
        except ResponseError:
            return False

    async def replace(self, key: bytes, value: bytes) -> bool:
        """Sets a value that does not expire. Returns False where Redis is full or read-only."""
        try:
            return bool(await _reply(self._client.set(key, value)))
        except ResponseError:
            return False

    async def swap(self, key: bytes, expected: bytes, value: bytes) -> bool:
        """Sets a value that does not expire if it is still `expected`; tells whether it was."""
        try:
            return bool(await _reply(cast("Any", self._client.eval(_SWAP, 1, key, expected, value))))
        except ResponseError:
            return False

    async def remove(self, *keys: bytes) -> int:
        """Forgets keys; returns how many there were."""
        return int(await answer_of(self._client.unlink(*keys)))

    async def page(self, prefix: bytes, cursor: int) -> tuple[int, list[bytes]]:
        """Returns some of the keys that begin with `prefix`, and the cursor of the next page."""
        following, keys = await answer_of(self._client.scan(cursor, match=prefix + b"*", count=_PAGE))
        return int(following), list(keys)


async def _reply(command: Awaitable[Any]) -> Any:
    """Awaits a reply; an error reply of a living Redis stays a ResponseError.

    redis-py sends with `asyncio.wait_for`, which up to Python 3.11 loses a cancellation that comes just as the command
    has been sent (python/cpython#86296). Who was cancelled meanwhile is cancelled here: a task that follows the log
    would never end.
    """
    before = _cancellations()
    try:
        return await command
    except ResponseError:
        raise
    except (RedisError, RedisClusterException, OSError, TimeoutError) as error:
        raise Unavailable(f"Redis does not answer ({type(error).__name__})") from error
    finally:
        # Whatever the reply: nobody waits for it any more.
        if _cancellations() > before:
            raise asyncio.CancelledError


def _cancellations() -> int:
    """Returns how often this task has been cancelled."""
    task = asyncio.current_task()
    return 0 if task is None else task.cancelling()


async def answer_of(command: Awaitable[Any]) -> Any:
    """Awaits a reply where an error reply is of no more use than none."""
    try:
        return await _reply(command)
    except ResponseError as error:
        raise Unavailable(f"Redis refuses ({type(error).__name__})") from error
