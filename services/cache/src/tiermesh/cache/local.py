"""A replica's own memory in front of the store, for exact hits.

It answers only while this replica follows the changes that others make (see `follower`); what
they forget or overwrite is dropped here within the time an event takes. A value that was read
before an event came is not kept after it: see `epoch`.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass

from tiermesh.api.cache.v1 import cache_pb2
from tiermesh.cache.eviction import SampledKeys, Worth, least_worth
from tiermesh.shared.clock import Clock


@dataclass(frozen=True, slots=True)
class Local:
    """An answer as it was read from the store."""

    answer: cache_pb2.CachedAnswer
    stored_bytes: int
    token: bytes
    """Of the lookup that read it."""


@dataclass(slots=True)
class _Kept:
    local: Local
    size_bytes: int
    ends: float
    used_at: float


class LocalAnswers:
    """Answers by their key in the store.

    Args:
        max_entries: Most answers.
        max_bytes: Most memory, as serialized sizes.
        hold_s: Longest time that an answer is given without asking the store again, in seconds.
        clock: Time.
        rng: Chooses what is compared when room is short.
    """

    def __init__(
        self, *, max_entries: int, max_bytes: int, hold_s: float, clock: Clock, rng: random.Random | None = None
    ) -> None:
        self._max_entries = max_entries
        self._max_bytes = max_bytes
        self._hold_s = hold_s
        self._clock = clock
        self._kept: dict[bytes, _Kept] = {}
        self._keys = SampledKeys[bytes](rng or random.Random())  # noqa: S311 -- a sample, not a secret
        self._bytes = 0
        self.epoch = 0
        """Counts the changes that were heard of; what was read under another one is not kept."""
        self.is_current: Callable[[], bool] = lambda: False
        """Whether changes of other replicas are heard of at present."""

    def __len__(self) -> int:
        return len(self._kept)

    @property
    def size_bytes(self) -> int:
        """Memory taken, as serialized sizes."""
        return self._bytes

    def get(self, key: bytes) -> Local | None:
        """Returns an answer."""
        kept = self._kept.get(key)
        if kept is None or not self.is_current():
            return None
        now = self._clock.monotonic()
        if now >= kept.ends:
            self.drop(key)
            return None
        kept.used_at = now
        return kept.local

    def put(self, key: bytes, local: Local, *, epoch: int, lives_s: float) -> None:
        """Keeps an answer that was read while `epoch` was the count, for at most `lives_s` seconds."""
        size = local.answer.ByteSize()
        if epoch != self.epoch or size > self._max_bytes or not self._max_entries or not self.is_current():
            return
        if lives_s <= 0:
            return
        self._remove(key)
        now = self._clock.monotonic()
        while self._kept and (len(self._kept) >= self._max_entries or self._bytes + size > self._max_bytes):
            self._evict(now)
        self._kept[key] = _Kept(local, size, now + min(self._hold_s, lives_s), now)
        self._keys.add(key)
        self._bytes += size

    def drop(self, key: bytes) -> None:
        """Forgets one answer."""
        self.epoch += 1
        self._remove(key)

    def drop_prefix(self, prefix: bytes) -> None:
        """Forgets the answers whose key begins with `prefix`; an empty one forgets all."""
        self.epoch += 1
        for key in [key for key in self._kept if key.startswith(prefix)]:
            self._remove(key)

    def _remove(self, key: bytes) -> None:
        kept = self._kept.pop(key, None)
        if kept is not None:
            self._keys.discard(key)
            self._bytes -= kept.size_bytes

    def _evict(self, now: float) -> None:
        self._remove(least_worth(((key, self._worth(self._kept[key])) for key in self._keys.sample()), now))

    def _worth(self, kept: _Kept) -> Worth:
        usage = kept.local.answer.usage
        return Worth(usage.prompt_token_count + 4 * usage.completion_token_count, kept.size_bytes, kept.used_at)
