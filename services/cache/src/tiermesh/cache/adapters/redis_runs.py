"""Redis as the board on which routers see who runs what.

    run:<name>          the claim of a request, as of the last invalidation: token, router, traceparent
    run:followers:<t>   a sorted set: followers of a run by the time until which they count
    run:events:<t>      a stream of what the run has given, made by its first follower
    run:alive:<router>  which session speaks for a router; gone a moment after the session is
    run:wanted:<router> a stream of tokens whose followers came or went

Every step is one script, so that no two routers can both hold a claim, and none can write under a claim
that it has lost. No step but the first lookup touches more than one run or one router, so that in a cluster the keys of
each may lie in a slot of their own. Times are Redis's own: the replicas' clocks need not agree.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast

from redis.asyncio import Redis
from tiermesh.cache.adapters.redis import answer_of
from tiermesh.cache.adapters.redis_script import NOW, RedisScript
from tiermesh.cache.adapters.redis_streams import Entry, entries_of, streams_of
from tiermesh.cache.adapters.run_lua import HOLDS, RELEASE
from tiermesh.cache.keys import RUN_PREFIX
from tiermesh.cache.run_tokens import KEPT_DIGITS, Claimant, ClaimText, RunKeys
from tiermesh.cache.tokens import TOMBSTONE_BYTES

CLAIM_MS = 120_000
"""A run that takes longer may be run a second time elsewhere."""
ALIVE_MS = 2_000
FOLLOWS_MS = 1_000
_EVENTS_MS = 120_000
_WANTED_MS = 10_000
_MAX_WANTED = 10_000
_PAGE = 100
_NOTHING = -2
"""In place of a number of events: an entry without meaning, such as the one that makes the stream."""

_CLAIM = f"""
{HOLDS}{NOW}
local function claim(key, value, ms)
  -- A full Redis refuses to write; then nobody claims, and nobody follows.
  local set = redis.pcall('set', key, value, 'NX', 'PX', ms)
  if type(set) == 'table' and set.ok then return value end
  if type(set) == 'table' and set.err then return false end
  local there = redis.pcall('get', key)
  return type(there) == 'string' and there
end
"""
_READ_OR_CLAIM = f"""
local found = redis.call('mget', KEYS[1], KEYS[2])
local generation, value = found[1], found[2]
if not generation then
  -- Without one there is nothing that an invalidation could change.
  local set = redis.pcall('set', KEYS[1], ARGV[1], 'NX')
  if type(set) == 'table' and set.ok then generation = ARGV[1] end
end
local tombstone = value and #value == {TOMBSTONE_BYTES} and string.byte(value) == 0
if (value and not tombstone) or not generation then return {{generation, value, false}} end
local name = redis.sha1hex(ARGV[2] .. generation .. (value or '')) .. string.sub(ARGV[2], 1, {KEPT_DIGITS})
local token = name .. '-' .. ARGV[3]
return {{generation, value, claim(ARGV[6] .. name, token .. ARGV[4], ARGV[5])}}
"""
_CLAIM_ALONE = "return claim(KEYS[1], ARGV[1], ARGV[2])"
_RELEASE = RELEASE + "return release(KEYS[1], KEYS[2], ARGV[1])"
_PUBLISH = """
if not holds(KEYS[1], ARGV[1]) then return -1 end
local t = now()
redis.call('zremrangebyscore', KEYS[3], '-inf', t)
local followers = redis.call('zcard', KEYS[3])
if followers > 0 and ARGV[3] ~= '' then
  redis.call('xadd', KEYS[2], '*', 'n', ARGV[2], 'e', ARGV[3])
  redis.call('pexpire', KEYS[2], ARGV[4])
end
redis.call('pexpire', KEYS[1], ARGV[4])
return followers
"""
_FOLLOW = f"""
local value = holds(KEYS[1], ARGV[1])
local router = value and string.match(value, '^%S+ (%S+) ')
if not router then return false end
redis.call('zadd', KEYS[3], now() + ARGV[3], ARGV[2])
redis.call('pexpire', KEYS[3], ARGV[4])
if redis.call('exists', KEYS[2]) == 0 then
  redis.call('xadd', KEYS[2], '*', 'n', {_NOTHING}, 'e', '')
  redis.call('pexpire', KEYS[2], ARGV[4])
end
return router
"""
_WANT = """
if redis.call('exists', KEYS[1]) == 0 then return 0 end
redis.call('xadd', KEYS[2], 'MAXLEN', '~', ARGV[2], '*', 't', ARGV[1])
redis.call('pexpire', KEYS[2], ARGV[3])
return 1
"""
_CLEAR = """
redis.call('zrem', KEYS[2], ARGV[2])
if holds(KEYS[1], ARGV[1]) then redis.call('del', KEYS[1]) end
return 1
"""
_KEEP = """
if not holds(KEYS[1], ARGV[1]) then return 0 end
redis.call('zadd', KEYS[2], now() + ARGV[3], ARGV[2])
return 1
"""
_CEASE = """
redis.call('zrem', KEYS[2], ARGV[2])
return holds(KEYS[1], ARGV[1]) and 1 or 0
"""
_BURY = "if redis.call('get', KEYS[1]) == ARGV[1] then return redis.call('del', KEYS[1]) end return 0"


class RedisRuns:
    """A `RunBoard` in Redis.

    Args:
        client: The pool of the answer store, for what a request waits for.
        waiting: A pool of its own for what waits, so that followers cannot keep lookups from their connections.
        alive_ms: How long a router counts as alive that says nothing.
        follows_ms: How long a follower counts that says nothing.
        keys: Where things are.
    """

    def __init__(
        self,
        client: Redis,
        waiting: Redis,
        *,
        alive_ms: int = ALIVE_MS,
        follows_ms: int = FOLLOWS_MS,
        keys: RunKeys = RunKeys(),  # noqa: B008 -- immutable
    ) -> None:
        self._alive_ms = alive_ms
        self._follows_ms = follows_ms
        self._waiting = waiting
        self._keys = keys
        self._read_or_claim = RedisScript(client, _CLAIM + _READ_OR_CLAIM)
        self._claim = RedisScript(client, _CLAIM + _CLAIM_ALONE)
        self._release = RedisScript(client, _CLAIM + _RELEASE)
        self._publish = RedisScript(waiting, _CLAIM + _PUBLISH)
        self._follow = RedisScript(waiting, _CLAIM + _FOLLOW)
        self._want = RedisScript(waiting, _WANT)
        self._clear = RedisScript(waiting, _CLAIM + _CLEAR)
        self._keep = RedisScript(waiting, _CLAIM + _KEEP)
        self._cease = RedisScript(waiting, _CLAIM + _CEASE)
        self._bury = RedisScript(waiting, _BURY)

    async def read_or_claim(
        self, generation_key: bytes, entry_key: bytes, fresh: bytes, claimant: Claimant
    ) -> tuple[bytes | None, bytes | None, bytes | None]:
        """Reads; where no answer is there, claims the run unless it is claimed."""
        said = f" {claimant.router} {claimant.trace_parent}"
        arguments: list[bytes | str | int] = [fresh, claimant.digest, claimant.random.hex(), said, CLAIM_MS, RUN_PREFIX]
        generation, value, holder = await answer_of(self._read_or_claim([generation_key, entry_key], arguments))
        return generation, value, holder

    async def claim(self, claim: ClaimText) -> bytes | None:
        """Claims a run unless it is claimed."""
        found = await answer_of(self._claim([self._keys.claim(claim.token)], [claim.encode(), CLAIM_MS]))
        return bytes(found) if found else None

    async def release(self, token: str) -> None:
        """Ends a claim, if it is still that one, and says so to those who wait."""
        keys = [self._keys.claim(token), self._keys.events(token)]
        await answer_of(self._release(keys, [token]))

    async def publish(self, token: str, first: int, payload: bytes) -> int | None:
        """Appends events; returns how many wait for more."""
        followers = int(await answer_of(self._publish(self._of_run(token), [token, first, payload, _EVENTS_MS])))
        return None if followers < 0 else followers

    async def begin_to_follow(self, token: str, follower: str) -> str | None:
        """Says that somebody waits; returns the router that leads."""
        arguments: list[bytes | str | int] = [token, follower, self._follows_ms, _EVENTS_MS]
        found = await answer_of(self._follow(self._of_run(token), arguments))
        if not found:
            return None
        router = found.decode("ascii")
        if await self._tell(router, token):
            return str(router)
        # Its leader is gone: whoever comes next may claim it.
        keys = [self._keys.claim(token), self._keys.followers(token)]
        await answer_of(self._clear(keys, [token, follower]))
        return None

    async def keep_following(self, token: str, router: str, follower: str) -> bool:
        """Says that somebody still waits; returns whether the run is still led."""
        keys = [self._keys.claim(token), self._keys.followers(token)]
        if not await answer_of(self._keep(keys, [token, follower, self._follows_ms])):
            return False
        return bool(await answer_of(self._waiting.exists(self._keys.alive(router))))

    async def cease_to_follow(self, token: str, router: str, follower: str) -> None:
        """Says that somebody waits no more."""
        keys = [self._keys.claim(token), self._keys.followers(token)]
        if await answer_of(self._cease(keys, [token, follower])):
            await self._tell(router, token)

    async def _tell(self, router: str, token: str) -> bool:
        """Tells a router that followers of its run came or went; returns whether it lives."""
        keys = [self._keys.alive(router), self._keys.wanted(router)]
        return bool(await answer_of(self._want(keys, [token, _MAX_WANTED, _WANTED_MS])))

    def _of_run(self, token: str) -> list[bytes]:
        return [self._keys.claim(token), self._keys.events(token), self._keys.followers(token)]

    async def events(self, token: str, after: bytes, *, wait_ms: int) -> Sequence[tuple[bytes, int, bytes]]:
        """Returns what came after a position, waiting for it."""
        found = await self._read(self._keys.events(token), after, wait_ms)
        return [(position, int(fields.get(b"n", _NOTHING)), fields.get(b"e", b"")) for position, fields in found]

    async def hear(self, router: str, session: bytes, after: bytes, *, wait_ms: int) -> Sequence[tuple[bytes, str]]:
        """Says that a router lives; returns its runs that are wanted, waiting for them."""
        await answer_of(self._waiting.set(self._keys.alive(router), session, px=self._alive_ms))
        found = await self._read(self._keys.wanted(router), after, wait_ms)
        return [(position, fields[b"t"].decode("ascii")) for position, fields in found]

    async def bury(self, router: str, session: bytes) -> None:
        """Says that a router is gone, unless another session speaks for it by now."""
        await answer_of(self._bury([self._keys.alive(router)], [session]))

    async def _read(self, stream: bytes, after: bytes, wait_ms: int) -> list[Entry]:
        found = await answer_of(cast("Any", self._waiting.xread({stream: after}, count=_PAGE, block=wait_ms or None)))
        return entries_of(streams_of(found).get(stream))
