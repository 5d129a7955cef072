"""Redis as the answer store.

Nothing is retried here: a failed lookup is a miss, and retries live in Envoy alone. RESP2 without
the client's greetings makes a new connection cost one TCP handshake.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Sequence
from contextlib import asynccontextmanager
from typing import Any, cast

from redis.asyncio import Redis
from redis.exceptions import RedisClusterException, RedisError, ResponseError
from tiermesh.cache.adapters.redis_script import RedisScript
from tiermesh.cache.adapters.run_lua import HOLDS, RELEASE
from tiermesh.cache.keys import PREFIX
from tiermesh.cache.ports import Rival, Write
from tiermesh.cache.run_tokens import RunKeys
from tiermesh.cache.tokens import TOMBSTONE_BYTES
from tiermesh.shared.errors import Unavailable

_PAGE = 1000
_SECURE_MS = 500
# The braces are a hash tag: all that replicas tell each other is in one slot of a cluster.
CHANGES = PREFIX + b"{log}:changes"
MAX_CHANGES = 10_000
_RUNS = RunKeys()
_KEYS, _ARGUMENTS = 4, 6
"""Of each answer."""
WRITE_OVER = f"""
local function write_over(key, value, ms, tombstone)
  if tombstone ~= '' then
    local there = redis.pcall('getrange', key, 0, {TOMBSTONE_BYTES})
    if type(there) ~= 'string' then there = '' end
    if #there == {TOMBSTONE_BYTES} and string.byte(there) == 0 and there ~= tombstone then return 0 end
  end
  local set = redis.pcall('set', key, value, 'px', ms)
  -- A full Redis refuses this one; one that is a replica by now refuses all, and says so to its client.
  if set.err and string.find(set.err, 'READONLY', 1, true) then error(set.err, 0) end
  return set.ok and 1 or 0
end
"""
_KEEP = f"""
{HOLDS}{RELEASE}{WRITE_OVER}
local written = {{}}
for i = 0, (#KEYS - 1) / {_KEYS} - 1 do
  local k, a = {_KEYS} * i + 1, {_ARGUMENTS} * i
  local was = 0
  if redis.pcall('get', KEYS[k + 1]) == ARGV[a + 1] then
    was = write_over(KEYS[k + 2], ARGV[a + 2], ARGV[a + 3], ARGV[a + 4])
    if was == 1 and ARGV[a + 5] == '1' then
      redis.pcall('xadd', KEYS[1], 'MAXLEN', '~', {MAX_CHANGES}, '*', 'key', KEYS[k + 2])
    end
  end
  if ARGV[a + 6] ~= '' then release(KEYS[k + 3], KEYS[k + 4], ARGV[a + 6]) end
  written[i + 1] = was
end
return written
"""
_SWAP = "if redis.call('get', KEYS[1]) == ARGV[1] then redis.call('set', KEYS[1], ARGV[2]) return 1 end return 0"


class RedisStore:
    """An `AnswerStore` in Redis, or in a server that speaks its protocol."""

    def __init__(self, client: Redis) -> None:
        self._client = client
        self._keep = RedisScript(client, _KEEP)
        self._swap = RedisScript(client, _SWAP)

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
        present = await self._string(generation_key)
        if present is None and not await answer_of(self._client.set(generation_key, fresh, nx=True)):
            present = await self._string(generation_key)
            if present is None:
                # Something else lies there, which would keep the tenant's answers out for good.
                await answer_of(self._client.set(generation_key, fresh))
        return fresh if present is None else present

    async def _string(self, key: bytes) -> bytes | None:
        # Unlike GET, MGET says of a key of another type that it is not there.
        (value,) = await answer_of(cast("Any", self._client).execute_command("MGET", key))
        return None if value is None else bytes(value)

    async def write(self, key: bytes, value: bytes, ttl_ms: int) -> bool:
        """Sets a value that expires. Returns False where Redis is full or read-only."""
        try:
            return bool(await reply_of(self._client.set(key, value, px=ttl_ms)))
        except ResponseError:
            return False

    async def keep(self, writes: Sequence[Write]) -> Sequence[bool] | None:
        """Files answers in one step; tells of each whether it was written, and None where Redis takes nothing."""
        keys: list[bytes] = [CHANGES]
        arguments: list[bytes | str | int] = []
        for one in writes:
            run, place = one.run_token, one.entry_key
            of_run = (_RUNS.claim(run), _RUNS.events(run)) if run else (place, place)
            keys += (one.generation_key, place, *of_run)
            arguments += (one.generation, one.value, one.ttl_ms, one.tombstone or b"", int(one.tells), run)
        try:
            return [bool(was) for was in await reply_of(self._keep(keys, arguments))]
        except ResponseError:
            return None

    async def replace(self, key: bytes, value: bytes) -> bool:
        """Sets a value that does not expire. Returns False where Redis is full or read-only."""
        try:
            return bool(await reply_of(self._client.set(key, value)))
        except ResponseError:
            return False

    async def swap(self, key: bytes, expected: bytes, value: bytes) -> bool:
        """Sets a value that does not expire if it is still `expected`; tells whether it was."""
        try:
            return bool(await reply_of(self._swap([key], [expected, value])))
        except ResponseError:
            return False

    async def secure(self, *keys: bytes) -> bool:
        """Waits until the replicas of this Redis have all that was written; False where one has not in time."""
        del keys  # One server has them all.
        return await is_replicated(self._client)

    @asynccontextmanager
    async def rivals(self) -> AsyncIterator[Sequence[Rival]]:
        """Opens none: whoever names this server means it."""
        yield ()

    async def remove(self, *keys: bytes) -> int:
        """Forgets keys; returns how many there were."""
        return int(await answer_of(self._client.unlink(*keys)))

    async def page(self, prefix: bytes, cursor: int) -> tuple[int, list[bytes]]:
        """Returns some of the keys that begin with `prefix`, and the cursor of the next page."""
        following, keys = await answer_of(self._client.scan(cursor, match=prefix + b"*", count=_PAGE))
        return int(following), list(keys)


async def is_replicated(client: Redis) -> bool:
    """Waits until the replicas of a primary have all that was written to it; False where one has not in time."""
    told: dict[str, Any] = await answer_of(client.info("replication"))
    if told.get("role") != "master":
        return False
    online = sum(isinstance(value, dict) and value.get("state") == "online" for value in told.values())
    if not online:
        return True
    # WAIT is about what came before it on its own connection: so that something has.
    pipeline: Any = client.pipeline(transaction=False)
    pipeline.ping()
    pipeline.execute_command("WAIT", online, _SECURE_MS)
    _, confirmed = await answer_of(pipeline.execute())
    return bool(confirmed >= online)


async def reply_of(command: Awaitable[Any]) -> Any:
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
    except (RedisError, RedisClusterException, OSError, TimeoutError, RuntimeError) as error:
        # RuntimeError is what uvloop raises for writing to a connection that Redis has just closed.
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
        return await reply_of(command)
    except ResponseError as error:
        raise Unavailable(f"Redis refuses ({_code_of(error)})") from error


def _code_of(error: ResponseError) -> str:
    """Returns the code that an error reply begins with, such as `NOAUTH`; the rest may repeat what was sent."""
    code = str(error).partition(" ")[0]
    return code if code.isupper() and code.isalpha() else type(error).__name__
