"""Finds answers, over a store that may be slow or gone."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from enum import Enum
from functools import partial
from typing import Any

from tiermesh.api.cache.v1 import cache_pb2
from tiermesh.cache.access import StoreAccess
from tiermesh.cache.codec import Codec, PoisonedValue, StaleValue
from tiermesh.cache.forgotten import Forgotten
from tiermesh.cache.freshness import Freshness
from tiermesh.cache.generations import LastGenerations
from tiermesh.cache.keys import Place, place_of
from tiermesh.cache.local import Local, LocalAnswers
from tiermesh.cache.ports import AnswerStore, RunBoard
from tiermesh.cache.run_tokens import Claimant, moment_of
from tiermesh.cache.tokens import NEVER, is_tombstone, token_of, tombstone
from tiermesh.shared.budget import Budget
from tiermesh.shared.clock import Clock
from tiermesh.shared.errors import Unavailable
from tiermesh.shared.telemetry import get_logger

_log = get_logger(__name__)
_LEAST_SHARE = 0.2
"""Share of the wait that a second read has at least: a store that was slow but in time is no failing one."""


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
    token: bytes = NEVER
    """What storing an answer to the same request needs."""
    holder: bytes | None = None
    """For a miss with a claim: the claim that stands now, as `ClaimText` has it; None where that is not known."""
    moment: bytes = b""
    """For a miss: what an invalidation would change, see `run_tokens`; empty where that is not known."""


class AnswerCache:
    """The exact tier.

    Args:
        store: Where the bytes are.
        access: Bounds what the store may cost.
        codec: Answers as bytes.
        freshness: How long answers are kept.
        clock: Time.
        timeout_s: Longest wait of a lookup for the store.
        random_generation: 8 random bytes.
        generations: Where what was read is noted.
        forgotten: What is not to be given, though the store has it.
        tombstone_ms: How long an answer that was forgotten by hand is to leave a tombstone, in ms.
        local: This replica's own memory; None where there is none.
        runs: Where routers see who runs what; None where nobody looks.
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
        random_generation: Callable[[], bytes],
        generations: LastGenerations | None = None,
        forgotten: Forgotten | None = None,
        tombstone_ms: int = 600_000,
        local: LocalAnswers | None = None,
        runs: RunBoard | None = None,
    ) -> None:
        self._runs = runs
        self._store = store
        self._access = access
        self._codec = codec
        self._freshness = freshness
        self._clock = clock
        self._local = local
        self._timeout_s = timeout_s
        self._random_generation = random_generation
        self._generations = generations or LastGenerations()
        self._forgotten = forgotten or Forgotten()
        self._tombstone_ms = tombstone_ms

    async def lookup(self, tenant: str, fingerprint: bytes, budget: Budget) -> Found:
        """Finds an answer; whatever is wrong with the store or the value is a kind of miss."""
        return await self.lookup_at(place_of(tenant, fingerprint), budget)

    async def lookup_at(
        self, place: Place, budget: Budget, *, spent_s: float = 0.0, claim: Claimant | None = None
    ) -> Found:
        """Does the same for an answer whose place is known.

        Args:
            place: Where it is.
            budget: The caller's.
            spent_s: Time that the store has had for this lookup already, in seconds.
            claim: Claims the run in the same step where no answer is there.
        """
        if self._local is not None and (kept := self._local.get(place.entry)) is not None:
            return Found(Result.HIT, place.label, kept.answer, kept.stored_bytes, is_local=True, token=kept.token)
        epoch = self._local.epoch if self._local is not None else 0
        # Both tiers together wait for the store no longer than one may.
        cap_s = max(self._timeout_s - spent_s, self._timeout_s * _LEAST_SHARE)
        bound = budget.child(cap=cap_s)
        try:
            generation, value, holder = await self._access.run(
                partial(self._read, place, claim), budget=budget, cap_s=cap_s
            )
        except Unavailable:
            return Found(Result.UNAVAILABLE, place.label)
        if not self._forgotten.is_complete:
            return Found(Result.MISS, place.label)
        if generation is None:
            return await self._first(place, bound)
        if self._forgotten.has_ended(generation):
            await self._end_again(place, generation, bound)
            return Found(Result.MISS, place.label)
        self._generations.note(place.generation, generation)
        mark = self._forgotten.mark_of(place.entry)
        if mark is not None and (value is None or (is_tombstone(value) and value != tombstone(mark))):
            return await self._forget_again(place, mark, bound)
        token, moment = token_of(generation, value), moment_of(generation, value)
        miss = Found(Result.MISS, place.label, token=token, holder=holder, moment=moment)
        if value is None or is_tombstone(value):
            return miss
        try:
            answer = self._codec.decode(value, key=place.entry, generation=generation)
        except StaleValue:
            return miss
        except PoisonedValue as error:
            _log.warning("a stored answer is damaged and is deleted", entry=place.label, why=str(error))
            await self._discard(place, bound)
            return miss
        if mark is not None and answer.invalidation_mark != mark:
            return await self._forget_again(place, mark, bound)
        if answer.invalidation_mark:
            # Whoever makes it anew has asked after that invalidation, too.
            token = token_of(generation, tombstone(answer.invalidation_mark))
        if self._local is not None:
            kept = Local(answer, len(value), token)
            self._local.put(place.entry, kept, epoch=epoch, lives_s=self._lives_s(answer))
        return Found(Result.HIT, place.label, answer, len(value), token=token)

    async def token(self, tenant: str, fingerprint: bytes, budget: Budget) -> Found:
        """Returns the token for an answer that is to be made anew, as a miss."""
        place = place_of(tenant, fingerprint)
        try:
            read = partial(self._store.read, place.generation, place.entry)
            generation, value = await self._access.run(read, budget=budget, cap_s=self._timeout_s)
        except Unavailable:
            return Found(Result.UNAVAILABLE, place.label)
        if generation is None:
            return await self._first(place, budget)
        if self._forgotten.has_ended(generation):
            await self._end_again(place, generation, budget)
            return Found(Result.MISS, place.label)
        self._generations.note(place.generation, generation)
        mark = self._forgotten.mark_of(place.entry)
        return Found(Result.MISS, place.label, token=token_of(generation, tombstone(mark) if mark else value))

    async def _first(self, place: Place, budget: Budget) -> Found:
        # Without a generation there is nothing that an invalidation could change: it gets one now.
        settle = partial(self._store.settle, place.generation, self._random_generation())
        try:
            generation = await self._access.run(settle, budget=budget, cap_s=self._timeout_s, insist=True)
        except Unavailable:
            return Found(Result.MISS, place.label)
        self._generations.note(place.generation, generation)
        token, moment = token_of(generation, None), moment_of(generation, None)
        return Found(Result.MISS, place.label, token=token, moment=moment)

    async def _read(self, place: Place, claim: Claimant | None) -> tuple[bytes | None, bytes | None, bytes | None]:
        if claim is not None and self._runs is not None:
            fresh = self._random_generation()
            return await self._runs.read_or_claim(place.generation, place.entry, fresh, claim)
        generation, value = await self._store.read(place.generation, place.entry)
        return generation, value, None

    def _lives_s(self, answer: cache_pb2.CachedAnswer) -> float:
        """Returns how much longer the store keeps an answer, in seconds; 0 where it does not say."""
        until_ms = answer.fresh_until_time.ToMilliseconds()
        return until_ms / 1000 + self._freshness.stale_s(answer.task_type) - self._clock.wall() if until_ms else 0.0

    def is_stale(self, answer: cache_pb2.CachedAnswer) -> bool:
        """Tells whether an answer is past its time and should be made anew."""
        fresh_until_ms = answer.fresh_until_time.ToMilliseconds()
        return 0 < fresh_until_ms <= self._clock.wall() * 1000

    async def _end_again(self, place: Place, generation: bytes, bound: Budget) -> None:
        """Replaces a generation that was replaced before and has come back, in a store that lost its last writes."""
        _log.warning("the store has lost an invalidation; it is made up for", entry=place.label)
        swap = partial(self._store.swap, place.generation, generation, self._random_generation())
        await self._repair(swap, bound)

    async def _forget_again(self, place: Place, mark: bytes, bound: Budget) -> Found:
        """Puts a tombstone in the place of an answer that was forgotten by hand: it ended, or was lost, or never came.

        Nothing is claimed or kept under what the store said before.
        """
        await self._repair(partial(self._store.write, place.entry, tombstone(mark), self._tombstone_ms), bound)
        return Found(Result.MISS, place.label)

    async def _repair(self, write: Callable[[], Coroutine[Any, Any, bool]], bound: Budget) -> None:
        try:
            await self._access.run(write, budget=bound, cap_s=self._timeout_s, insist=True)
        except Unavailable:
            # The next lookup tries again.
            return

    async def _discard(self, place: Place, bound: Budget) -> None:
        try:
            await self._access.run(
                partial(self._store.remove, place.entry), budget=bound, cap_s=self._timeout_s, insist=True
            )
        except Unavailable:
            return
