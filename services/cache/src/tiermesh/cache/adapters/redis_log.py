"""Redis streams as the log that replicas follow."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from redis.asyncio import Redis
from tiermesh.cache.adapters.redis import CHANGES, MAX_CHANGES, answer_of
from tiermesh.cache.adapters.redis_script import NOW, RedisScript
from tiermesh.cache.adapters.redis_streams import entries_of, streams_of
from tiermesh.cache.keys import PREFIX
from tiermesh.cache.ports import LogPage

# The braces are a hash tag, as those of `CHANGES`: both streams are in one slot of a cluster, and are read by one command.
QUESTIONS = PREFIX + b"{log}:questions"
_AWAITED = b"awaited"
"""Of a change that was not only overwritten: somebody waits until it has been heard."""
_HEARD = PREFIX + b"{log}:heard"
_PAGE = 500
_HEARD_MS = 60_000
_SAY_HEARD = f"""
{NOW}
local ends = now() + ARGV[3]
redis.call('hset', KEYS[1], ARGV[1], ARGV[2] .. ' ' .. string.format('%.0f', ends))
redis.call('pexpire', KEYS[1], {_HEARD_MS})
return 1
"""
_COUNT_BEHIND = f"""
{NOW}
local moment = now()
local function parse(position)
  local ms, number = string.match(position, '^(%d+)-?(%d*)$')
  return tonumber(ms) or 0, tonumber(number) or 0
end
local ms, number = parse(ARGV[1])
local behind, said = 0, redis.call('hgetall', KEYS[1])
for i = 1, #said, 2 do
  local position, ends = string.match(said[i + 1], '^(%S+) (%d+)$')
  if not ends or tonumber(ends) < moment then
    redis.call('hdel', KEYS[1], said[i])
  else
    local its_ms, its_number = parse(position)
    if its_ms < ms or (its_ms == ms and its_number < number) then behind = behind + 1 end
  end
end
return behind
"""


class RedisLog:
    """A `ChangeLog` in two Redis streams.

    Args:
        client: The connection pool.
        max_questions: Questions that the stream keeps, about.
    """

    def __init__(self, client: Redis, *, max_questions: int) -> None:
        self._client = client
        self._max_questions = max_questions
        self._say_heard = RedisScript(client, _SAY_HEARD)
        self._count_behind = RedisScript(client, _COUNT_BEHIND)

    async def append_change(self, key: bytes) -> bytes:
        """Says that an answer is gone, or those of a whole tenant; returns its position."""
        said: Any = {b"key": key, _AWAITED: b"1"}
        return bytes(await answer_of(self._client.xadd(CHANGES, said, maxlen=MAX_CHANGES, approximate=True)))

    async def say_heard(self, replica: str, changes_until: bytes, *, holds_ms: int) -> None:
        """Says what a replica has applied, and for how long it may answer from memory by Redis's clock."""
        await answer_of(self._say_heard([_HEARD], [replica, changes_until, holds_ms]))

    async def count_behind(self, position: bytes) -> int:
        """Returns how many replicas may still answer from memory without having heard of a change."""
        return int(await answer_of(self._count_behind([_HEARD], [position])))

    async def append_questions(self, questions: Sequence[Mapping[bytes, bytes]]) -> None:
        """Says that questions were answered."""
        pipeline: Any = self._client.pipeline(transaction=False)
        for fields in questions:
            pipeline.xadd(QUESTIONS, dict(fields), maxlen=self._max_questions, approximate=True)
        await answer_of(pipeline.execute())

    async def read(self, changes_after: bytes, questions_after: bytes, *, wait_ms: int) -> LogPage:
        """Returns what was said after two positions."""
        found = await answer_of(
            self._client.xread({CHANGES: changes_after, QUESTIONS: questions_after}, count=_PAGE, block=wait_ms)
        )
        streams = streams_of(found)
        said = entries_of(streams.get(CHANGES))
        changes = [(position, fields.get(b"key", b"")) for position, fields in said]
        questions = entries_of(streams.get(QUESTIONS))
        is_reset = False
        if not streams:
            # Silence, or a Redis that lost its memory and starts to count again.
            is_reset = await self._is_behind(CHANGES, changes_after) or await self._is_behind(
                QUESTIONS, questions_after
            )
        elif len(changes) >= _PAGE:
            is_reset = await self._is_cut(CHANGES, changes_after)
        return LogPage(changes, questions, any(_AWAITED in fields for _, fields in said), is_reset)

    async def _is_behind(self, stream: bytes, position: bytes) -> bool:
        if position == b"0":
            return False
        last = await answer_of(self._client.xrevrange(stream, count=1))
        return not last or _order(last[0][0]) < _order(position)

    async def _is_cut(self, stream: bytes, position: bytes) -> bool:
        first = await answer_of(self._client.xrange(stream, count=1))
        return position != b"0" and (not first or _order(first[0][0]) > _order(position))


def _order(position: bytes) -> tuple[int, int]:
    ms, _, number = position.partition(b"-")
    return int(ms), int(number or 0)
