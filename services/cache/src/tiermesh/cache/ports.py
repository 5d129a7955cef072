"""What the cache needs of the world."""

from __future__ import annotations

from typing import Protocol


class AnswerStore(Protocol):
    """A shared store of bytes that forgets by itself.

    Every method raises `tiermesh.shared.errors.Unavailable` where the store does not answer. How
    long a caller waits is not its business: see `access`.
    """

    async def read(self, generation_key: bytes, entry_key: bytes) -> tuple[bytes | None, bytes | None]:
        """Returns both values as of one moment, None for what is not there."""
        ...

    async def settle(self, generation_key: bytes, fresh: bytes) -> bytes:
        """Returns the value of a key, after setting it to `fresh` if it had none."""
        ...

    async def write(self, key: bytes, value: bytes, ttl_ms: int) -> bool:
        """Sets a value that expires. Returns False where a living store refuses, such as a full one."""
        ...

    async def replace(self, key: bytes, value: bytes) -> bool:
        """Sets a value that does not expire. Returns False where a living store refuses."""
        ...

    async def remove(self, *keys: bytes) -> int:
        """Forgets keys; returns how many there were."""
        ...

    async def page(self, prefix: bytes, cursor: int) -> tuple[int, list[bytes]]:
        """Returns some of the keys that begin with `prefix`, and the cursor of the next page.

        The first cursor is 0, and 0 comes back with the last page. A key may come twice.
        """
        ...
