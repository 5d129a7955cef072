"""Redis streams as the log that replicas follow."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, cast

from redis.asyncio import Redis
from tiermesh.cache.adapters.redis import CHANGES, MAX_CHANGES, answer_of
from tiermesh.cache.adapters.redis_script import NOW, RedisScript
from tiermesh.cache.adapters.redis_streams import Entry, entries_of, streams_of
from tiermesh.cache.keys import PREFIX
from tiermesh.cache.ports import Change, ChangePage, QuestionPage

# The braces are a hash tag, as those of `CHANGES`.
QUESTIONS = PREFIX + b"{log}:questions"
_AWAITED = b"awaited"
"""Of a change that was not only overwritten: somebody waits until it has been heard."""
_ENDED, _MARK, _REPEATED = b"ended", b"mark", b"again"
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

    async def append_change(self, change: Change) -> bytes:
        """Says that an answer is gone, or those of a whole tenant; returns its position."""
        said: dict[Any, Any] = {b"key": change.key}
        said |= {_ENDED: change.ended} if change.ended else {}
        said |= {_MARK: change.mark} if change.mark else {}
        said |= {_REPEATED if change.is_repeated else _AWAITED: b"1"}
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

    async def read_changes(self, after: bytes, *, wait_ms: int) -> ChangePage:
        """Returns what was said after a position."""
        said = await self._read(CHANGES, after, wait_ms)
        is_reset = False
        if not said:
            # Silence, or a Redis that lost its memory and starts to count again.
            is_reset = await self._is_behind(CHANGES, after)
        elif len(said) >= _PAGE:
            is_reset = await self._is_cut(CHANGES, after)
        return ChangePage(
            [(position, _change(fields)) for position, fields in said],
            is_awaited=any(_AWAITED in fields for _, fields in said),
            is_last=len(said) < _PAGE,
            is_reset=is_reset,
        )

    async def read_questions(self, after: bytes, *, wait_ms: int) -> QuestionPage:
        """Does the same for questions; those that the stream no longer has are left out."""
        said = await self._read(QUESTIONS, after, wait_ms)
        is_reset = not said and await self._is_behind(QUESTIONS, after)
        return QuestionPage(said, is_last=len(said) < _PAGE, is_reset=is_reset)

    async def _read(self, stream: bytes, after: bytes, wait_ms: int) -> list[Entry]:
        # Without waiting it is another command: 0 would wait for good.
        found = await answer_of(cast("Any", self._client.xread({stream: after}, count=_PAGE, block=wait_ms or None)))
        return entries_of(streams_of(found).get(stream))

    async def _is_behind(self, stream: bytes, position: bytes) -> bool:
        if position == b"0":
            return False
        last = await answer_of(self._client.xrevrange(stream, count=1))
        return not last or _order(last[0][0]) < _order(position)

    async def _is_cut(self, stream: bytes, position: bytes) -> bool:
        first = await answer_of(self._client.xrange(stream, count=1))
        return position != b"0" and (not first or _order(first[0][0]) > _order(position))


def _change(fields: Mapping[bytes, bytes]) -> Change:
    return Change(fields.get(b"key", b""), fields.get(_ENDED, b""), fields.get(_MARK, b""), _REPEATED in fields)


def _order(position: bytes) -> tuple[int, int]:
    ms, _, number = position.partition(b"-")
    return int(ms), int(number or 0)
