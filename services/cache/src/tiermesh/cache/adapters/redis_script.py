"""A script that Redis runs by its digest."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import Any

from redis.asyncio import Redis
from redis.exceptions import NoScriptError

NOW = """
local function now()
  local time = redis.call('time')
  return time[1] * 1000 + math.floor(time[2] / 1000)
end
"""
"""Redis's own clock, in ms since the Unix epoch: those of its callers need not agree."""


class RedisScript:
    """One script on one server, or on whichever node of a cluster has its keys.

    Sent in full only to a server that does not know it: one that has just started, or has just taken over. redis-py's
    own scripts are loaded by every node of a cluster then, and fail where one of the others is gone.

    Args:
        client: The connection pool.
        text: The script.
    """

    def __init__(self, client: Redis, text: str) -> None:
        self._client: Any = client
        self._text = text
        self._digest = hashlib.sha1(text.encode(), usedforsecurity=False).hexdigest()

    async def __call__(self, keys: Sequence[bytes], arguments: Sequence[bytes | str | int]) -> Any:
        """Runs it; the keys must be in one slot of a cluster.

        Raises:
            RedisError: Redis refuses, or does not answer.
        """
        try:
            return await self._client.evalsha(self._digest, len(keys), *keys, *arguments)
        except NoScriptError:
            return await self._client.eval(self._text, len(keys), *keys, *arguments)
