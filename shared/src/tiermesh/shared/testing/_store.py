"""An answer store in memory, which can be made to fail."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from typing import Any, Protocol

from tiermesh.shared.clock import Clock
from tiermesh.shared.errors import Unavailable

_TOMBSTONE_BYTES = 9


class _Write(Protocol):
    """What the cache writes, see `tiermesh.cache.ports.Write`."""

    @property
    def generation_key(self) -> bytes: ...
    @property
    def entry_key(self) -> bytes: ...
    @property
    def generation(self) -> bytes: ...
    @property
    def value(self) -> bytes: ...
    @property
    def ttl_ms(self) -> int: ...
    @property
    def tombstone(self) -> bytes | None: ...
    @property
    def tells(self) -> bool: ...


class FakeAnswerStore:
    """Bytes in a dictionary, with expiry by a clock.

    Set `down` to refuse everything, `full` to refuse writes, and clear `answering` to hang.
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self.values: dict[bytes, bytes] = {}
        self.expiries: dict[bytes, float] = {}
        """When each key ends, in seconds on the clock's monotonic time."""
        self.down = False
        self.full = False
        self.others: list[Any] = []
        self.is_secure = True
        """Whether replicas confirm what is written."""
        self.answering = asyncio.Event()
        self.answering.set()
        self.calls = 0
        """Operations begun."""
        self.on_change: Callable[[bytes], Awaitable[object]] | None = None
        """Called with the key of each answer that is filed and that other replicas are to hear of."""
        self._scanned: list[bytes] = []

    async def read(self, generation_key: bytes, entry_key: bytes) -> tuple[bytes | None, bytes | None]:
        """Returns both values, None for what is not there."""
        await self._turn()
        return self._get(generation_key), self._get(entry_key)

    async def settle(self, generation_key: bytes, fresh: bytes) -> bytes:
        """Returns the value of a key, after setting it to `fresh` if it had none."""
        await self._turn()
        return self.values.setdefault(generation_key, fresh)

    async def write(self, key: bytes, value: bytes, ttl_ms: int) -> bool:
        """Sets a value that expires."""
        await self._turn()
        if self.full:
            return False
        self.values[key] = value
        self.expiries[key] = self._clock.monotonic() + ttl_ms / 1000
        return True

    async def keep(self, writes: Sequence[_Write]) -> list[bool] | None:
        """Files answers, in this order; tells of each whether it was written. Ends no claims: there are none."""
        await self._turn()
        written = [self._keep(one) for one in writes]
        if self.on_change is not None:
            for one, was in zip(writes, written, strict=True):
                if was and one.tells:
                    await self.on_change(one.entry_key)
        return written

    def _keep(self, one: _Write) -> bool:
        there = self._get(one.entry_key)
        is_tombstone = there is not None and len(there) == _TOMBSTONE_BYTES and there[:1] == b"\0"
        if self.full or self.values.get(one.generation_key) != one.generation:
            return False
        if one.tombstone is not None and is_tombstone and there != one.tombstone:
            return False
        self.values[one.entry_key] = one.value
        self.expiries[one.entry_key] = self._clock.monotonic() + one.ttl_ms / 1000
        return True

    async def replace(self, key: bytes, value: bytes) -> bool:
        """Sets a value that does not expire."""
        await self._turn()
        if self.full:
            return False
        self.values[key] = value
        self.expiries.pop(key, None)
        return True

    async def swap(self, key: bytes, expected: bytes, value: bytes) -> bool:
        """Sets a value if it is still `expected`; tells whether it was."""
        await self._turn()
        if self.full or self.values.get(key) != expected:
            return False
        self.values[key] = value
        return True

    async def secure(self, *keys: bytes) -> bool:
        """Tells whether what was written outlasts a failure."""
        del keys
        return self.is_secure

    @asynccontextmanager
    async def rivals(self) -> AsyncIterator[list[Any]]:
        """Opens the other servers that take themselves for the primary, as a test has them."""
        yield self.others

    async def remove(self, *keys: bytes) -> int:
        """Forgets keys; returns how many there were."""
        await self._turn()
        return sum(self.values.pop(key, None) is not None for key in keys)

    async def page(self, prefix: bytes, cursor: int) -> tuple[int, list[bytes]]:
        """Returns up to two keys that begin with `prefix`, and the cursor of the next page."""
        await self._turn()
        if cursor == 0:
            self._scanned = sorted(key for key in self.values if key.startswith(prefix))
        following = cursor + 2
        return (0 if following >= len(self._scanned) else following), self._scanned[cursor:following]

    def _get(self, key: bytes) -> bytes | None:
        if self.expiries.get(key, self._clock.monotonic() + 1) <= self._clock.monotonic():
            self.values.pop(key, None)
        return self.values.get(key)

    async def _turn(self) -> None:
        self.calls += 1
        await self.answering.wait()
        if self.down:
            raise Unavailable("the fake store is down")
