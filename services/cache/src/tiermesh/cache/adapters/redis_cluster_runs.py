"""The board in a Redis Cluster: a run's keys are in one slot, and a router's in another."""

from __future__ import annotations

from tiermesh.cache.adapters.redis_cluster import RedisClusterStore
from tiermesh.cache.adapters.redis_runs import ALIVE_MS, FOLLOWS_MS, RedisRuns
from tiermesh.cache.run_tokens import Claimant, RunKeys, moment_of
from tiermesh.cache.tokens import is_tombstone
from tiermesh.shared.errors import Unavailable


class RedisClusterRuns(RedisRuns):
    """A `RunBoard` in a Redis Cluster.

    Generation, answer and claim are on three nodes, so that a lookup which misses claims in a second step. Between the
    two the answer may be stored and its claim end: the request is run once more then, as if it had come later.

    Args:
        store: The pools of the answer store.
        waiting: Pools of their own for what waits.
        alive_ms: How long a router counts as alive that says nothing.
        follows_ms: How long a follower counts that says nothing.
    """

    def __init__(
        self,
        store: RedisClusterStore,
        waiting: RedisClusterStore,
        *,
        alive_ms: int = ALIVE_MS,
        follows_ms: int = FOLLOWS_MS,
    ) -> None:
        keys = RunKeys(tagged=True)
        super().__init__(store.client, waiting.client, alive_ms=alive_ms, follows_ms=follows_ms, keys=keys)
        self._store = store

    async def read_or_claim(
        self, generation_key: bytes, entry_key: bytes, fresh: bytes, claimant: Claimant
    ) -> tuple[bytes | None, bytes | None, bytes | None]:
        """Reads; where no answer is there, claims the run unless it is claimed."""
        generation, value = await self._store.read(generation_key, entry_key)
        if value is not None and not is_tombstone(value):
            return generation, value, None
        try:
            generation = generation or await self._store.settle(generation_key, fresh)
        except Unavailable:
            # A full node takes none: it has no answer, and nobody claims.
            return None, value, None
        return generation, value, await self.claim(claimant.at(moment_of(generation, value)))
