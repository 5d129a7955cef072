"""The semantic tier without a model: words are hashed into vectors, and the log is a list."""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import struct
from collections.abc import Mapping, Sequence
from typing import TypeVar

from harness.answers import fingerprint, make_answer, make_key
from harness.cache import RunningCache
from tiermesh.api.cache.v1 import cache_pb2
from tiermesh.cache.ports import Change, ChangePage, QuestionPage
from tiermesh.shared.errors import Unavailable

T = TypeVar("T")
DIMENSIONS = 64


class FakeEmbedder:
    """Texts that share words are alike; texts with other than ASCII letters have unknown tokens."""

    name = "words"

    def __init__(self) -> None:
        self.texts: list[str] = []

    async def embed(self, text: str) -> bytes:
        """Returns a normalised vector, or nothing."""
        self.texts.append(text)
        if not text.isascii():
            return b""
        values = [0.0] * DIMENSIONS
        for word in text.lower().rstrip("?.!").split():
            values[hashlib.sha256(word.encode()).digest()[0] % DIMENSIONS] += 1
        norm = sum(value * value for value in values) ** 0.5
        return struct.pack(f"{DIMENSIONS}e", *(value / norm for value in values))


class FakeNeighbours:
    """Compares with every vector."""

    def __init__(self) -> None:
        self.vectors: dict[int, tuple[float, ...]] = {}

    def add(self, number: int, vector: bytes) -> None:
        """Adds a vector."""
        self.vectors[number] = struct.unpack(f"{len(vector) // 2}e", vector)

    async def add_all(self, vectors: Mapping[int, bytes]) -> None:
        """Adds many."""
        for number, vector in vectors.items():
            self.add(number, vector)

    def remove(self, number: int) -> None:
        """Removes a vector."""
        self.vectors.pop(number, None)

    def nearest(self, vector: bytes) -> tuple[int, float] | None:
        """Returns the nearest vector's number and cosine."""
        scored = [(self.similarity(number, vector), number) for number in self.vectors]
        return (max(scored)[1], max(scored)[0]) if scored else None

    def similarity(self, number: int, vector: bytes) -> float:
        """Returns the cosine of one of them."""
        asked = struct.unpack(f"{len(vector) // 2}e", vector)
        return sum(a * b for a, b in zip(asked, self.vectors[number], strict=True))


class FakeChangeLog:
    """A log that several caches of one process may share. Set `down` to refuse everything."""

    def __init__(self) -> None:
        self.changes: list[Change] = []
        self.questions: list[Mapping[bytes, bytes]] = []
        self.down = False
        self.heard: dict[str, int] = {}
        self.says = 0
        self.is_waited_for = False
        """Whether replicas that have said something are waited for; they never cease to be."""
        self.grown = asyncio.Event()

    async def append_change(self, change: Change | bytes) -> bytes:
        """Says that an answer changed; a key alone is that of one which was overwritten."""
        self._check()
        self.changes.append(Change(change) if isinstance(change, bytes) else change)
        self.grown.set()
        return str(len(self.changes)).encode()

    async def say_heard(self, replica: str, changes_until: bytes, *, holds_ms: int) -> None:
        """Says what a replica has applied."""
        del holds_ms
        self._check()
        self.says += 1
        self.heard[replica] = int(changes_until)

    async def count_behind(self, position: bytes) -> int:
        """Returns how many have not heard yet, of those that a test wants to be waited for."""
        self._check()
        return sum(heard < int(position) for heard in self.heard.values()) if self.is_waited_for else 0

    async def append_questions(self, questions: Sequence[Mapping[bytes, bytes]]) -> None:
        """Says that questions were answered."""
        self._check()
        self.questions.extend(dict(fields) for fields in questions)
        self.grown.set()

    async def read_changes(self, after: bytes, *, wait_ms: int) -> ChangePage:
        """Returns what was said after a position."""
        found = await self._read(self.changes, int(after), wait_ms)
        return ChangePage(found, is_awaited=bool(found), is_reset=int(after) > len(self.changes))

    async def read_questions(self, after: bytes, *, wait_ms: int) -> QuestionPage:
        """Returns what was said after a position."""
        found = await self._read(self.questions, int(after), wait_ms)
        return QuestionPage(found, is_reset=int(after) > len(self.questions))

    async def _read(self, said: list[T], after: int, wait_ms: int) -> list[tuple[bytes, T]]:
        # Positions count from 1; a log that is shorter than a position has lost its memory.
        self._check()
        if after == len(said) and wait_ms:
            self.grown.clear()
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(wait_ms / 1000):
                    await self.grown.wait()
        return [(str(n + 1).encode(), said[n]) for n in range(after, len(said))]

    def _check(self) -> None:
        if self.down:
            raise Unavailable("the fake log is down")


def query(text: str, partition: str = "partition", task_type: str = "") -> cache_pb2.SemanticQuery:
    """Returns what the semantic tier is asked."""
    return cache_pb2.SemanticQuery(partition=fingerprint(partition), text=text, task_type=task_type)


async def ask(
    cache: RunningCache, text: str, *, tenant: str = "local", partition: str = "partition", task_type: str = ""
) -> cache_pb2.LookupResponse:
    """Looks a question up as a router would."""
    request = cache_pb2.LookupRequest(
        key=make_key(f"{partition}|{text}", tenant), semantic=query(text, partition, task_type)
    )
    return await cache.call("Lookup", request)


async def answered(
    cache: RunningCache,
    text: str,
    answer: str = "the answer",
    *,
    tenant: str = "local",
    partition: str = "partition",
    task_type: str = "faq",
    **fields: object,
) -> bool:
    """Stores the answer to a question as a router would."""
    request = cache_pb2.StoreRequest(
        key=make_key(f"{partition}|{text}", tenant),
        answer=make_answer(answer, task_type=task_type),
        semantic=query(text, partition),
        **fields,
    )
    return (await cache.call("Store", request)).stored


def name(response: cache_pb2.LookupResponse) -> str:
    """Returns a result's short name."""
    return cache_pb2.CacheResult.Name(response.result).removeprefix("CACHE_RESULT_")
