"""What the cache needs of the world."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
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

    async def write_over(self, key: bytes, value: bytes, ttl_ms: int, tombstone: bytes) -> bool:
        """Does the same, unless another tombstone than this one lies there; tells whether it was written."""
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

    async def swap(self, key: bytes, expected: bytes, value: bytes) -> bool:
        """Sets a value that does not expire if it is still `expected`; tells whether it was."""
        ...


class ChangeLog(Protocol):
    """What replicas tell each other. Raises `Unavailable` like the store."""

    async def append_change(self, key: bytes) -> None:
        """Says that an answer changed or is gone, or those of a whole tenant: `key` is then its prefix."""
        ...

    async def append_question(self, fields: Mapping[bytes, bytes]) -> None:
        """Says that a question was answered."""
        ...

    async def read(self, changes_after: bytes, questions_after: bytes, *, wait_ms: int) -> LogPage:
        """Returns what was said after two positions, waiting for at most `wait_ms` where that is nothing.

        The first position is `0`. `is_reset` tells that the log no longer reaches back to a position.
        """
        ...


@dataclass(frozen=True, slots=True)
class LogPage:
    """Part of the log."""

    changes: Sequence[tuple[bytes, bytes]]
    """Position and key of each."""
    questions: Sequence[tuple[bytes, Mapping[bytes, bytes]]]
    """Position and fields of each."""
    is_reset: bool = False
    """Whether what was heard before may be forgotten by the store."""


class Embedder(Protocol):
    """Turns texts into vectors."""

    async def embed(self, text: str) -> bytes:
        """Returns the normalised embedding as half-precision floats, or nothing where a token is unknown."""
        ...


class Neighbours(Protocol):
    """Vectors by number."""

    def add(self, number: int, vector: bytes) -> None:
        """Adds a normalised vector of half-precision floats."""
        ...

    def remove(self, number: int) -> None:
        """Removes a vector."""
        ...

    def nearest(self, vector: bytes) -> tuple[int, float] | None:
        """Returns the number and cosine of the nearest one."""
        ...

    def similarity(self, number: int, vector: bytes) -> float:
        """Returns the cosine of one of them."""
        ...
