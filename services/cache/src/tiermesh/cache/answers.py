"""Finds, keeps and forgets answers, over a store that may be slow or gone."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from enum import Enum
from functools import partial
from typing import Any, TypeVar

from tiermesh.api.cache.v1 import cache_pb2
from tiermesh.cache.access import StoreAccess
from tiermesh.cache.codec import Codec, PoisonedValue, StaleValue, tags_of
from tiermesh.cache.freshness import Freshness, jittered_ttl_ms
from tiermesh.cache.keys import Place, generation_key, place_of, tenant_prefix
from tiermesh.cache.local import LocalAnswers
from tiermesh.cache.ports import AnswerStore, ChangeLog
from tiermesh.cache.refusals import is_refusal
from tiermesh.cache.tags import effective, invalidated, is_generation
from tiermesh.shared.budget import Budget
from tiermesh.shared.clock import Clock
from tiermesh.shared.errors import Unavailable
from tiermesh.shared.telemetry import get_logger

_T = TypeVar("_T")
_log = get_logger(__name__)
_WRITE_WAITS = 10
"""A write may take this many times as long as a lookup: nobody's answer waits for it."""
_INSIST_S = 1.0
_LEAST_SHARE = 0.2
"""Share of the wait that a second read has at least: a store that was slow but in time is no failing one."""
_SWAPS = 5
"""Tries to change a generation that others change at the same time."""
_SWEEP_S = 2.0


class Result(Enum):
    """How a lookup ended."""

    MISS = "miss"
    HIT = "hit_exact"
    UNAVAILABLE = "store_unavailable"
    HIT_SEMANTIC = "hit_semantic"


@dataclass(frozen=True, slots=True)
class Found:
    """What a lookup found."""

    result: Result
    label: str
    """The first digits of the entry's key."""
    answer: cache_pb2.CachedAnswer | None = None
    stored_bytes: int = 0
    is_local: bool = False
    """Whether it came from this replica's own memory."""


@dataclass(frozen=True, slots=True)
class Kept:
    """An answer that was written to the store."""

    place: Place
    ends_ms: int
    """When it expires, in ms since the Unix epoch."""


class AnswerCache:
    """The exact tier.

    Args:
        store: Where the bytes are.
        access: Bounds what the store may cost.
        codec: Answers as bytes.
        freshness: How long answers are kept.
        clock: Time.
        timeout_s: Longest wait of a lookup for the store.
        random_fraction: A random number from 0 up to 1, for the jitter.
        random_generation: 8 random bytes.
        local: This replica's own memory; None where there is none.
        log: Where the other replicas hear of changes; None where nobody listens.
    """

    def __init__(
        self,
        store: AnswerStore,
        access: StoreAccess,
        codec: Codec,
        *,
        freshness: Freshness,
        clock: Clock,
        timeout_s: float,
        random_fraction: Callable[[], float],
        random_generation: Callable[[], bytes],
        local: LocalAnswers | None = None,
        log: ChangeLog | None = None,
    ) -> None:
        self._store = store
        self._access = access
        self._codec = codec
        self._freshness = freshness
        self._clock = clock
        self._local = local
        self._log = log
        self._timeout_s = timeout_s
        self._random_fraction = random_fraction
        self._random_generation = random_generation

    async def lookup(self, tenant: str, fingerprint: bytes, budget: Budget) -> Found:
        """Finds an answer; whatever is wrong with the store or the value is a kind of miss."""
        return await self.lookup_at(place_of(tenant, fingerprint), budget)

    async def lookup_at(self, place: Place, budget: Budget, *, spent_s: float = 0.0) -> Found:
        """Does the same for an answer whose place is known.

        Args:
            place: Where it is.
            budget: The caller's.
            spent_s: Time that the store has had for this lookup already, in seconds.
        """
        if self._local is not None and (kept := self._local.get(place.entry)) is not None:
            return Found(Result.HIT, place.label, kept[0], kept[1], is_local=True)
        epoch = self._local.epoch if self._local is not None else 0
        # Both tiers together wait for the store no longer than one may.
        cap_s = max(self._timeout_s - spent_s, self._timeout_s * _LEAST_SHARE)
        bound = budget.child(cap=cap_s)
        try:
            generation, value = await self._access.run(
                partial(self._store.read, place.generation, place.entry), budget=budget, cap_s=cap_s
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
        if self._local is not None:
            self._local.put(place.entry, answer, len(value), epoch=epoch, lives_s=self._lives_s(answer))
        return Found(Result.HIT, place.label, answer, len(value))

    def _lives_s(self, answer: cache_pb2.CachedAnswer) -> float:
        """Returns how much longer the store keeps an answer, in seconds; 0 where it does not say."""
        until_ms = answer.fresh_until_time.ToMilliseconds()
        return until_ms / 1000 + self._freshness.stale_s(answer.task_type) - self._clock.wall() if until_ms else 0.0

    def is_stale(self, answer: cache_pb2.CachedAnswer) -> bool:
        """Tells whether an answer is past its time and should be made anew."""
        fresh_until_ms = answer.fresh_until_time.ToMilliseconds()
        return 0 < fresh_until_ms <= self._clock.wall() * 1000

    async def keep(
        self, tenant: str, fingerprint: bytes, answer: cache_pb2.CachedAnswer, *, ttl_s: float | None, budget: Budget
    ) -> Kept | None:
        """Keeps an answer; returns None where it may not be, is too large, or the store did not take it in time."""
        if not self._freshness.is_kept(answer.task_type) or any(is_refusal(text) for text in _texts(answer)):
            return None
        place = place_of(tenant, fingerprint)
        fresh_ms = jittered_ttl_ms(self._freshness.fresh_s(answer.task_type, ttl_s), self._random_fraction())
        stale_ms = round(self._freshness.stale_s(answer.task_type) * 1000)
        now_ms = round(self._clock.wall() * 1000)
        answer.fresh_until_time.FromMilliseconds(now_ms + fresh_ms)
        serialized = answer.SerializeToString(deterministic=True)
        if len(serialized) > self._codec.max_bytes:
            return None
        tags = tags_of(answer)
        try:
            stored = await self._access.run(
                partial(self._write, place, serialized, tags, fresh_ms + stale_ms),
                budget=budget,
                cap_s=self._timeout_s * _WRITE_WAITS,
            )
        except Unavailable:
            stored = False
        return Kept(place, now_ms + fresh_ms + stale_ms) if stored else None

    async def forget(self, tenant: str, fingerprint: bytes, budget: Budget) -> int:
        """Forgets one answer; returns how many there were.

        Raises:
            Unavailable: the store does not answer, so the answer may still be there.
        """
        entry = place_of(tenant, fingerprint).entry
        removed = await self._insist(partial(self._store.remove, entry), budget)
        await self._tell(entry, budget)
        return removed

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
        await self._tell(tenant_prefix(tenant), budget)
        return await self._sweep(tenant, budget.child(cap=_SWEEP_S))

    async def forget_tags(self, tenant: str, tags: list[str], budget: Budget) -> None:
        """Forgets the answers with one of these tags at once; their memory is freed as they expire.

        Raises:
            Unavailable: the store does not answer or refuses, so nothing was forgotten.
        """
        key = generation_key(tenant)
        for _ in range(_SWAPS):
            present = await self._insist(partial(self._store.settle, key, self._random_generation()), budget)
            following = invalidated(present, tags, self._random_generation()) if is_generation(present) else None
            if following is None:
                break
            if await self._insist(partial(self._store.swap, key, present, following), budget):
                await self._tell(tenant_prefix(tenant), budget)
                return
        # Too many tags, or too many others at it: forgetting everything forgets these too.
        await self.forget_tenant(tenant, budget)

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

    async def _write(self, place: Place, serialized: bytes, tags: list[str], ttl_ms: int) -> bool:
        # The generation is read before the value is written: an invalidation in between makes the value stale.
        fresh = self._random_generation()
        generation = await self._store.settle(place.generation, fresh)
        if not is_generation(generation):
            generation = fresh
            await self._store.replace(place.generation, fresh)
        value = self._codec.encode(serialized, key=place.entry, generation=effective(generation, tags))
        stored = await self._store.write(place.entry, value, ttl_ms)
        if stored and self._log is not None:
            await self._log.append_change(place.entry)
        return stored

    async def _tell(self, key: bytes, budget: Budget) -> None:
        if self._local is not None:
            self._local.drop_prefix(key) if key.endswith(b":") else self._local.drop(key)
        if self._log is not None:
            await self._insist(partial(self._log.append_change, key), budget)

    async def _discard(self, place: Place, bound: Budget) -> None:
        try:
            await self._access.run(
                partial(self._store.remove, place.entry), budget=bound, cap_s=self._timeout_s, insist=True
            )
        except Unavailable:
            return

    async def _insist(self, operation: Callable[[], Coroutine[Any, Any, _T]], budget: Budget) -> _T:
        return await self._access.run(operation, budget=budget, cap_s=_INSIST_S, insist=True)


def _texts(answer: cache_pb2.CachedAnswer) -> list[str]:
    texts: dict[int, str] = {}
    for delta in answer.deltas:
        texts[delta.choice_index] = texts.get(delta.choice_index, "") + delta.text
    return list(texts.values())
