"""Forgets answers, so that none of them comes back."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from functools import partial
from typing import Any, TypeVar

from tiermesh.cache.access import StoreAccess
from tiermesh.cache.forgotten import Forgotten, ended_name
from tiermesh.cache.keys import generation_key, place_of, tenant_prefix
from tiermesh.cache.leeway import USUAL, Leeway
from tiermesh.cache.local import LocalAnswers
from tiermesh.cache.ports import AnswerStore, Change, ChangeLog
from tiermesh.cache.tags import invalidated, is_generation
from tiermesh.cache.tokens import is_tombstone, tombstone
from tiermesh.shared.budget import Budget
from tiermesh.shared.errors import Unavailable
from tiermesh.shared.telemetry import get_logger

_T = TypeVar("_T")
_log = get_logger(__name__)
_SWAPS = 5
"""Tries to change a generation that others change at the same time."""
_FIRST_PAUSE_S, _LONGEST_PAUSE_S = 0.001, 0.02
_UNCONFIRMED = "a replica of the answer store has not confirmed in time that it forgets, too; try again"


class Invalidation:
    """Forgets one answer, a tenant's, or those with a tag.

    Args:
        store: Where the bytes are.
        access: Bounds what the store may cost.
        longest_s: Longest time that making an answer may take, in seconds. One that is forgotten by hand
            leaves a tombstone for so long.
        random_generation: 8 random bytes.
        forgotten: What this replica remembers of it.
        local: This replica's own memory; None where there is none.
        log: Where the other replicas hear of changes; None where nobody listens.
        leeway: How long all this may take.
    """

    def __init__(
        self,
        store: AnswerStore,
        access: StoreAccess,
        *,
        longest_s: float,
        random_generation: Callable[[], bytes],
        forgotten: Forgotten | None = None,
        local: LocalAnswers | None = None,
        log: ChangeLog | None = None,
        leeway: Leeway = USUAL,
    ) -> None:
        self._store = store
        self._leeway = leeway
        self._access = access
        self._tombstone_ms = round(longest_s * 1000)
        self._random_generation = random_generation
        self._forgotten = forgotten or Forgotten()
        self._local = local
        self._log = log

    async def forget(self, tenant: str, fingerprint: bytes, budget: Budget) -> int:
        """Forgets one answer; returns how many there were.

        Raises:
            Unavailable: the store does not answer, so the answer may still be there.
        """
        place, mark, removed = place_of(tenant, fingerprint), self._random_generation(), 0

        async def at(store: AnswerStore) -> list[Change]:
            nonlocal removed
            _, there = await self._insist(partial(store.read, place.generation, place.entry), budget)
            removed += int(there is not None and not is_tombstone(there))
            changes = [Change(place.entry, mark=mark)]
            write = partial(store.write, place.entry, tombstone(mark), self._tombstone_ms)
            if not await self._insist(write, budget):
                # A full store takes no tombstone; without a generation nothing is found, and nothing late is kept.
                changes.append(await self._without_generation(store, tenant, budget))
            return changes

        await self._everywhere(at, (place.generation, place.entry), budget)
        return min(removed, 1)

    async def forget_tenant(self, tenant: str, budget: Budget) -> int:
        """Forgets all answers of a tenant at once, then frees their memory as far as time allows.

        Returns:
            Answers whose memory was freed; what is left expires by itself and is never found.

        Raises:
            Unavailable: the store does not answer or refuses, so nothing was forgotten.
        """

        async def at(store: AnswerStore) -> list[Change]:
            return [await self._with_another_generation(store, tenant, lambda _: self._random_generation(), budget)]

        await self._everywhere(at, (generation_key(tenant),), budget)
        return await self._sweep(tenant, budget.child(cap=self._leeway.sweep_s))

    async def forget_tags(self, tenant: str, tags: list[str], budget: Budget) -> None:
        """Forgets the answers with one of these tags at once; their memory is freed as they expire.

        Raises:
            Unavailable: the store does not answer or refuses, so nothing was forgotten.
        """

        def following(present: bytes) -> bytes:
            longer = invalidated(present, tags, self._random_generation()) if is_generation(present) else None
            # Too many tags: forgetting everything forgets these too.
            return longer or self._random_generation()

        async def at(store: AnswerStore) -> list[Change]:
            return [await self._with_another_generation(store, tenant, following, budget)]

        await self._everywhere(at, (generation_key(tenant),), budget)

    async def _with_another_generation(
        self, store: AnswerStore, tenant: str, following: Callable[[bytes], bytes], budget: Budget
    ) -> Change:
        """Replaces a tenant's generation; returns what to tell."""
        key = generation_key(tenant)
        present = await self._generation(store, key, budget)
        for _ in range(_SWAPS):
            if present is None:
                # Nothing is found without one, and the next one is random.
                return Change(tenant_prefix(tenant))
            if await self._insist(partial(store.swap, key, present, following(present)), budget):
                return Change(tenant_prefix(tenant), ended=ended_name(present))
            refused, present = present, await self._generation(store, key, budget)
            if refused == present:
                break
        # A full store still deletes; and so many others at it lose no more than answers.
        return await self._without_generation(store, tenant, budget)

    async def _without_generation(self, store: AnswerStore, tenant: str, budget: Budget) -> Change:
        key = generation_key(tenant)
        present = await self._generation(store, key, budget)
        await self._insist(partial(store.remove, key), budget)
        return Change(tenant_prefix(tenant), ended=ended_name(present) if present is not None else b"")

    async def _generation(self, store: AnswerStore, key: bytes, budget: Budget) -> bytes | None:
        generation, _ = await self._insist(partial(store.read, key, key), budget)
        return generation

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

    async def _everywhere(
        self, forget: Callable[[AnswerStore], Awaitable[list[Change]]], keys: tuple[bytes, ...], budget: Budget
    ) -> None:
        """Forgets in the store, and in every other server that replicas of the cache may take for it."""
        await self._at(self._store, self._log, forget, keys, budget)
        # Only now: one that was promoted before has not got what was written here; one that is from now on has.
        async with self._store.rivals() as rivals:
            for rival in rivals:
                await self._at(rival.store, rival.log, forget, keys, budget)

    async def _at(
        self,
        store: AnswerStore,
        log: ChangeLog | None,
        forget: Callable[[AnswerStore], Awaitable[list[Change]]],
        keys: tuple[bytes, ...],
        budget: Budget,
    ) -> None:
        for change in await forget(store):
            self._forgotten.note(change)
            if self._local is not None:
                self._local.drop_prefix(change.key) if change.key.endswith(b":") else self._local.drop(change.key)
            if log is not None:
                position = await self._insist(partial(log.append_change, change), budget)
                await self._until_heard(log, position, budget.child(cap=self._leeway.heard_s))
        if not await self._insist(partial(store.secure, *keys), budget):
            # In force now; but a failover might bring back what was forgotten.
            raise Unavailable(_UNCONFIRMED)

    async def _until_heard(self, log: ChangeLog, position: bytes, budget: Budget) -> None:
        """Waits until no replica answers from a memory that has not heard of a change.

        Raises:
            Unavailable: one still may.
        """
        pause_s = _FIRST_PAUSE_S
        while await self._insist(partial(log.count_behind, position), budget):
            if budget.remaining() <= pause_s:
                raise Unavailable("a replica of the cache has not heard in time what it is to forget; try again")
            await asyncio.sleep(pause_s)
            pause_s = min(2 * pause_s, _LONGEST_PAUSE_S)

    async def _insist(self, operation: Callable[[], Coroutine[Any, Any, _T]], budget: Budget) -> _T:
        return await self._access.run(operation, budget=budget, cap_s=self._leeway.step_s, insist=True)
