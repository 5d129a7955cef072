"""Keeps answers: as many as come together in one step of the store."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

from tiermesh.api.cache.v1 import cache_pb2
from tiermesh.cache.access import StoreAccess
from tiermesh.cache.codec import Codec, tags_of
from tiermesh.cache.forgotten import Forgotten
from tiermesh.cache.freshness import Freshness, jittered_ttl_ms
from tiermesh.cache.generations import LastGenerations
from tiermesh.cache.keys import Place, place_of
from tiermesh.cache.ports import AnswerStore, Write
from tiermesh.cache.refusals import is_refusal
from tiermesh.cache.tags import effective, is_generation
from tiermesh.cache.tokens import is_of, mark_in, tombstone_seen
from tiermesh.shared.budget import Budget
from tiermesh.shared.clock import Clock
from tiermesh.shared.errors import Unavailable

_WRITE_WAITS = 10
"""A write may take this many times as long as a lookup: nobody's answer waits for it."""


@dataclass(frozen=True, slots=True)
class Offer:
    """An answer that is to be kept."""

    tenant: str
    fingerprint: bytes
    """SHA-256 of its canonical request."""
    answer: cache_pb2.CachedAnswer
    ttl_s: float | None = None
    """How long it is fresh, in seconds; None means as configured."""
    token: bytes = b""
    """Of the lookup before it was begun; nothing is checked without one."""
    run_token: str = ""
    """The run that it comes from, whose claim ends with it; may be empty."""
    semantic: cache_pb2.SemanticQuery | None = None
    """Its question, where other wordings may have it."""


@dataclass(frozen=True, slots=True)
class Kept:
    """An answer that was written to the store."""

    place: Place
    ends_ms: int
    """When it expires, in ms since the Unix epoch."""


@dataclass(slots=True)
class Outcome:
    """What has become of an offer."""

    kept: Kept | None = None
    """None where it may not be kept, is too large, was overtaken by an invalidation, or was not taken in time."""
    run_ended: bool = False
    """Whether the claim of its run is known to have ended."""


@dataclass(frozen=True, slots=True)
class _Ready:
    """An offer on its way."""

    offer: Offer
    place: Place
    serialized: bytes
    ttl_ms: int
    outcome: Outcome


class AnswerKeeper:
    """Writes answers.

    Args:
        store: Where the bytes are.
        access: Bounds what the store may cost.
        codec: Answers as bytes.
        freshness: How long answers are kept.
        clock: Time.
        timeout_s: Longest wait of a lookup for the store.
        random_fraction: A random number from 0 up to 1, for the jitter.
        random_generation: 8 random bytes.
        generations: What lookups have seen.
        forgotten: What is not to be given any more.
        tells: Whether replicas listen to what is overwritten.
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
        generations: LastGenerations,
        tells: bool,
        forgotten: Forgotten | None = None,
    ) -> None:
        self._store = store
        self._access = access
        self._codec = codec
        self._freshness = freshness
        self._clock = clock
        self._timeout_s = timeout_s
        self._random_fraction = random_fraction
        self._random_generation = random_generation
        self._generations = generations
        self._tells = tells
        self._forgotten = forgotten or Forgotten()

    async def keep(self, offers: Sequence[Offer], budget: Budget) -> list[Outcome]:
        """Keeps answers, in this order; returns what has become of each."""
        outcomes = [Outcome() for _ in offers]
        now_ms = round(self._clock.wall() * 1000)
        ready = [
            one
            for offer, outcome in zip(offers, outcomes, strict=True)
            if (one := self._ready(offer, outcome, now_ms)) is not None
        ]
        if not ready:
            return outcomes
        try:
            written = await self._access.run(
                partial(self._write, ready), budget=budget, cap_s=self._timeout_s * _WRITE_WAITS
            )
        except Unavailable:
            return outcomes
        for one in written:
            one.outcome.kept = Kept(one.place, now_ms + one.ttl_ms)
        return outcomes

    def _ready(self, offer: Offer, outcome: Outcome, now_ms: int) -> _Ready | None:
        answer, freshness = offer.answer, self._freshness
        if not freshness.is_kept(answer.task_type) or any(is_refusal(text) for text in _texts(answer)):
            return None
        fresh_ms = jittered_ttl_ms(freshness.fresh_s(answer.task_type, offer.ttl_s), self._random_fraction())
        answer.fresh_until_time.FromMilliseconds(now_ms + fresh_ms)
        place = place_of(offer.tenant, offer.fingerprint)
        # Who gives no token asks for no check: then it counts as begun just now.
        known = mark_in(offer.token) if offer.token else self._forgotten.mark_of(place.entry)
        answer.invalidation_mark = known or b""
        serialized = answer.SerializeToString(deterministic=True)
        if len(serialized) > self._codec.max_bytes:
            return None
        ttl_ms = fresh_ms + round(freshness.stale_s(answer.task_type) * 1000)
        return _Ready(offer, place, serialized, ttl_ms, outcome)

    async def _write(self, ready: Sequence[_Ready]) -> list[_Ready]:
        """Writes answers; returns those that were."""
        chosen, writes = [], []
        for one in ready:
            generation = await self._generation(one)
            if (one.offer.token and not is_of(one.offer.token, generation)) or self._forgotten.has_ended(generation):
                continue
            chosen.append(one)
            writes.append(self._made(one, generation))
            if len(ready) > 1:
                # Compressing many must not keep lookups waiting.
                await asyncio.sleep(0)
        if not writes:
            return []
        written = await self._store.keep(writes)
        if written is None:
            return []
        for one in chosen:
            one.outcome.run_ended = True
        return [one for one, was in zip(chosen, written, strict=True) if was]

    async def _generation(self, one: _Ready) -> bytes:
        """Returns the generation to write under: it was the tenant's at some moment since the answer was begun."""
        key, token = one.place.generation, one.offer.token
        seen = self._generations.last(key)
        if seen is not None and token and is_of(token, seen):
            return seen
        fresh = self._random_generation()
        generation = await self._store.settle(key, fresh)
        if not is_generation(generation):
            generation = fresh
            await self._store.replace(key, fresh)
        self._generations.note(key, generation)
        return generation

    def _made(self, one: _Ready, generation: bytes) -> Write:
        offer, place = one.offer, one.place
        under = effective(generation, tags_of(offer.answer))
        return Write(
            generation_key=place.generation,
            entry_key=place.entry,
            generation=generation,
            value=self._codec.encode(one.serialized, key=place.entry, generation=under),
            ttl_ms=one.ttl_ms,
            tombstone=tombstone_seen(offer.token) if offer.token else None,
            tells=self._tells,
            run_token=offer.run_token,
        )


def _texts(answer: cache_pb2.CachedAnswer) -> list[str]:
    texts: dict[int, str] = {}
    for delta in answer.deltas:
        texts[delta.choice_index] = texts.get(delta.choice_index, "") + delta.text
    return list(texts.values())
