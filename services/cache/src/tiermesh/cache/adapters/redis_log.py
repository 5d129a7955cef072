"""Redis streams as the log that replicas follow."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from redis.asyncio import Redis
from tiermesh.cache.adapters.redis import CHANGES, MAX_CHANGES, answer_of
from tiermesh.cache.keys import PREFIX
from tiermesh.cache.ports import LogPage

# The braces are a hash tag, as those of `CHANGES`: both streams are in one slot of a cluster, and are read by one command.
QUESTIONS = PREFIX + b"{log}:questions"
_PAGE = 500


class RedisLog:
    """A `ChangeLog` in two Redis streams.

    Args:
        client: The connection pool.
        max_questions: Questions that the stream keeps, about.
    """

    def __init__(self, client: Redis, *, max_questions: int) -> None:
        self._client = client
        self._max_questions = max_questions

    async def append_change(self, key: bytes) -> None:
        """Says that an answer changed or is gone, or those of a whole tenant."""
        await answer_of(self._client.xadd(CHANGES, {b"key": key}, maxlen=MAX_CHANGES, approximate=True))

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
        streams = dict(found.items() if isinstance(found, dict) else found or ())
        changes = [(position, fields.get(b"key", b"")) for position, fields in _entries(streams.get(CHANGES))]
        questions = list(_entries(streams.get(QUESTIONS)))
        is_reset = False
        if not streams:
            # Silence, or a Redis that lost its memory and starts to count again.
            is_reset = await self._is_behind(CHANGES, changes_after) or await self._is_behind(
                QUESTIONS, questions_after
            )
        elif len(changes) >= _PAGE:
            is_reset = await self._is_cut(CHANGES, changes_after)
        return LogPage(changes, questions, is_reset)

    async def _is_behind(self, stream: bytes, position: bytes) -> bool:
        if position == b"0":
            return False
        last = await answer_of(self._client.xrevrange(stream, count=1))
        return not last or _order(last[0][0]) < _order(position)

    async def _is_cut(self, stream: bytes, position: bytes) -> bool:
        first = await answer_of(self._client.xrange(stream, count=1))
        return position != b"0" and (not first or _order(first[0][0]) > _order(position))


def _entries(stream: Any) -> list[tuple[bytes, Mapping[bytes, bytes]]]:
    if not stream:
        return []
    # RESP2 gives a list of entries; some versions of the client wrap it once more.
    entries = stream[0] if len(stream) == 1 and isinstance(stream[0], list) else stream
    return [(bytes(position), fields) for position, fields in entries if fields]


def _order(position: bytes) -> tuple[int, int]:
    ms, _, number = position.partition(b"-")
    return int(ms), int(number or 0)
