"""Finds, keeps and forgets answers, over a store that may be slow or gone."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from enum import Enum
from functools import partial
from typing import Any, TypeVar

from tiermesh.api.cache.v1 import cache_pb2
from tiermesh.cache.access import StoreAccess
from tiermesh.cache.codec import Codec, PoisonedValue, StaleValue
from tiermesh.cache.freshness import jittered_ttl_ms
from tiermesh.cache.keys import GENERATION_BYTES, Place, generation_key, place_of, tenant_prefix
from tiermesh.cache.ports import AnswerStore
from tiermesh.shared.budget import Budget
from tiermesh.shared.errors import Unavailable
from tiermesh.shared.telemetry import get_logger

_T = TypeVar("_T")
_log = get_logger(__name__)
_WRITE_WAITS = 10
"""A write may take this many times as long as a lookup: nobody's answer waits for it."""
_INSIST_S = 1.0
_SWEEP_S = 2.0


class Result(Enum):
    """How a lookup ended."""

    MISS = "miss"
    HIT = "hit_exact"
    UNAVAILABLE = "store_unavailable"


@dataclass(frozen=True, slots=True)
class Found:
    """What a lookup found."""

    result: Result
    label: str
    """The first digits of the entry's key."""
    answer: cache_pb2.CachedAnswer | None = None
    stored_bytes: int = 0


class AnswerCache:
    """The exact tier.

    Args:
        store: Where the bytes are.
        access: Bounds what the store may cost.
        codec: Answers as bytes.
        ttl_s: How long an answer is kept where its request does not say.
        timeout_s: Longest wait of a lookup for the store.
        random_fraction: A random number from 0 up to 1, for the jitter.
        random_generation: 8 random bytes.
    """

    def __init__(
        self,
        store: AnswerStore,
        access: StoreAccess,
        codec: Codec,
        *,
        ttl_s: float,
        timeout_s: float,
        random_fraction: Callable[[], float],
        random_generation: Callable[[], bytes],
    ) -> None:
        self._store = store
        self._access = access
        self._codec = codec
        self._ttl_s = ttl_s
        self._timeout_s = timeout_s
        self._random_fraction = random_fraction
        self._random_generation = random_generation

    async def lookup(self, tenant: str, fingerprint: bytes, budget: Budget) -> Found:
        """Finds an answer; whatever is wrong with the store or the value is a kind of miss."""
        place = place_of(tenant, fingerprint)
        bound = budget.child(cap=self._timeout_s)
        try:
            generation, value = await self._access.run(
                partial(self._store.read, place.generation, place.entry), budget=budget, cap_s=self._timeout_s
            )
        except Unavailable:
            return Found(Result.UNAVAILABLE, place.label)
        if value is None or generation is None:
            return Found(Result.MISS, place.label)
        try:
            answer = self._codec.decode(value, key=place.entry, generation=generation)
        except StaleValue:
            return Found(Result.MISS, place.label)
        except PoisonedValue as error:
            _log.warning("a stored answer is damaged and is deleted", entry=place.label, why=str(error))
            await self._discard(place, bound)
            return Found(Result.MISS, place.label)
        return Found(Result.HIT, place.label, answer, len(value))

    async def keep(
        self, tenant: str, fingerprint: bytes, answer: cache_pb2.CachedAnswer, *, ttl_s: float | None, budget: Budget
    ) -> bool:
        """Keeps an answer; returns False where it is too large or the store did not take it in time."""
        serialized = answer.SerializeToString(deterministic=True)
        if len(serialized) > self._codec.max_bytes:
            return False
        place = place_of(tenant, fingerprint)
        ttl_ms = jittered_ttl_ms(self._ttl_s if ttl_s is None else ttl_s, self._random_fraction())
        try:
            return await self._access.run(
                partial(self._write, place, serialized, ttl_ms), budget=budget, cap_s=self._timeout_s * _WRITE_WAITS
            )
        except Unavailable:
            return False

    async def forget(self, tenant: str, fingerprint: bytes, budget: Budget) -> int:
        """Forgets one answer; returns how many there were.

        Raises:
            Unavailable: the store does not answer, so the answer may still be there.
        """
        entry = place_of(tenant, fingerprint).entry
        return await self._insist(partial(self._store.remove, entry), budget)

    async def forget_tenant(self, tenant: str, budget: Budget) -> int:
        """Forgets all answers of a tenant at once, then frees their memory as far as time allows.

        Returns:
            Answers whose memory was freed; what is left expires by itself and is never found.

        Raises:
            Unavailable: the store does not answer or refuses, so nothing was forgotten.
        """
        key = generation_key(tenant)
        if not await self._insist(partial(self._store.replace, key, self._random_generation()), budget):
            # A full store still deletes, and without a generation nothing is found either.
            await self._insist(partial(self._store.remove, key), budget)
        return await self._sweep(tenant, budget.child(cap=_SWEEP_S))

    async def _sweep(self, tenant: str, budget: Budget) -> int:
        kept = generation_key(tenant)
        removed = cursor = 0
        try:
            while not budget.exhausted:
                page = partial(self._store.page, tenant_prefix(tenant), cursor)
                cursor, keys = await self._insist(page, budget)
                entries = [key for key in keys if key != kept]
                if entries:
                    removed += await self._insist(partial(self._store.remove, *entries), budget)
                if cursor == 0:
                    break
        except Unavailable as error:
            _log.warning("forgotten answers are left to expire", removed=removed, error=error.message)
        return removed

    async def _write(self, place: Place, serialized: bytes, ttl_ms: int) -> bool:
        # The generation is read before the value is written: an invalidation in between makes the value stale.
        fresh = self._random_generation()
        generation = await self._store.settle(place.generation, fresh)
        if len(generation) != GENERATION_BYTES:
            generation = fresh
            await self._store.replace(place.generation, fresh)
        value = self._codec.encode(serialized, key=place.entry, generation=generation)
        return await self._store.write(place.entry, value, ttl_ms)

    async def _discard(self, place: Place, bound: Budget) -> None:
        try:
            await self._access.run(
                partial(self._store.remove, place.entry), budget=bound, cap_s=self._timeout_s, insist=True
            )
        except Unavailable:
            return

    async def _insist(self, operation: Callable[[], Coroutine[Any, Any, _T]], budget: Budget) -> _T:
        return await self._access.run(operation, budget=budget, cap_s=_INSIST_S, insist=True)
