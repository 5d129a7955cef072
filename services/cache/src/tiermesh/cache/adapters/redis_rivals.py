"""The answer store where Sentinels name the primary: for a while there may be two.

A primary that is replaced while it lives is told last, seconds later. Until then it takes writes, and answers those who have not
asked the Sentinels again. What was written there is lost in the end, but what is read there counts for whoever reads it.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any

from redis.asyncio import Redis
from redis.exceptions import RedisError
from tiermesh.cache.adapters.redis import RedisStore
from tiermesh.cache.adapters.redis_log import RedisLog
from tiermesh.cache.ports import Rival
from tiermesh.shared.errors import Unavailable

Address = tuple[str, int]
_GONE = ("s_down", "o_down")
"""What Sentinels say of a server that does not answer them either."""
_ROLE_S = 0.5
_PRIMARY = b"master"


class RedisSentinelStore(RedisStore):
    """An `AnswerStore` whose server may be replaced.

    Args:
        client: The pool of the primary.
        primary: Returns its address, as far as is known.
        members: Asks the Sentinels for all servers that they know, and what they say of each.
        connect: Makes a client of one server; it connects on first use.
    """

    def __init__(
        self,
        client: Redis,
        *,
        primary: Callable[[], Address | None],
        members: Callable[[], Awaitable[dict[Address, str]]],
        connect: Callable[[Address], Redis],
    ) -> None:
        super().__init__(client)
        self._primary = primary
        self._members = members
        self._connect = connect

    @asynccontextmanager
    async def rivals(self) -> AsyncIterator[Sequence[Rival]]:
        """Opens the other servers that take themselves for the primary.

        Raises:
            Unavailable: no Sentinel answers, or a server does not that they hold for alive.
        """
        members = await self._members()
        members.pop(self._primary() or ("", 0), None)
        async with AsyncExitStack() as stack:
            clients = []
            for address in members:
                client = self._connect(address)
                stack.push_async_callback(client.aclose)
                clients.append(client)
            roles = await asyncio.gather(
                *(_is_primary(client, flags) for client, flags in zip(clients, members.values(), strict=True))
            )
            yield [
                Rival(RedisStore(client), RedisLog(client, max_questions=1))
                for client, is_primary in zip(clients, roles, strict=True)
                if is_primary
            ]


async def _is_primary(client: Redis, flags: str) -> bool:
    try:
        async with asyncio.timeout(_ROLE_S):
            role: Any = await client.execute_command("ROLE")  # type: ignore[no-untyped-call]  # redis-py's own
    except ConnectionRefusedError:
        return False
    except (RedisError, OSError, TimeoutError) as error:
        if isinstance(error.__cause__, ConnectionRefusedError) or any(gone in flags for gone in _GONE):
            return False
        raise Unavailable("a server that may answer for the store does not say its role; try again") from error
    return bool(role[0] == _PRIMARY)
