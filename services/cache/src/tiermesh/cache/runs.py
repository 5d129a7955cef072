"""Who runs what: claims of runs, their events for those who wait elsewhere, and the routers behind them.

    lookup misses ─► claim ─┬─ ours ───────► run ─► store ─► release
                            └─ another's ──► follow ─► events ... ─► end, or nothing: look up again

Nothing of a run is written while nobody waits for it. A store that is slow, full or gone means that
nobody follows anybody; no request fails for it.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable, Coroutine, Sequence
from functools import partial
from typing import Any, TypeVar

from google.protobuf.message import DecodeError
from tiermesh.api.cache.v1 import cache_pb2
from tiermesh.api.router.v1 import router_pb2
from tiermesh.cache.access import StoreAccess
from tiermesh.cache.keys import Place
from tiermesh.cache.leeway import USUAL
from tiermesh.cache.ports import RUN_ENDED, RunBoard
from tiermesh.cache.run_tokens import Claimant, ClaimText
from tiermesh.shared.budget import Budget
from tiermesh.shared.clock import Clock
from tiermesh.shared.errors import QueueFull, Unavailable
from tiermesh.shared.telemetry import get_logger

_T = TypeVar("_T")
_log = get_logger(__name__)
_FIRST = b"0"
_HEAR_MS = 250
_EVENTS_MS = 100
"""How long a follower waits for events before it asks whether the run is still led."""
_TELL_S = 0.3
"""How often a follower says that it still waits."""


class Runs:
    """Claims, publishes and follows runs.

    Args:
        board: Where routers see who runs what.
        access: Bounds what the store may cost a request.
        timeout_s: Longest wait of a request for the store.
        random: Returns random bytes for tokens.
        clock: Time.
        ending: Set when the server is about to drain.
        step_s: Longest wait for what nobody's answer waits for.
        max_followed: Runs that may be followed through this replica at once; each takes a connection to the store.
    """

    def __init__(
        self,
        board: RunBoard,
        access: StoreAccess,
        *,
        timeout_s: float,
        random: Callable[[], bytes],
        clock: Clock,
        ending: asyncio.Event,
        step_s: float = USUAL.step_s,
        max_followed: int = 48,
    ) -> None:
        self.board = board
        self._access = access
        self._timeout_s = timeout_s
        self._step_s = step_s
        self._random = random
        self._free = max_followed
        self._clock = clock
        self._ending = ending
        self._last_things: set[asyncio.Task[Any]] = set()

    def claimant(self, place: Place, claim: cache_pb2.RunClaim) -> Claimant:
        """Returns the wish to begin a run."""
        return Claimant(place.digest, self._random(), claim.router, claim.trace_parent)

    async def claim(self, claim: ClaimText, budget: Budget, *, spent_s: float) -> bytes | None:
        """Claims a run for a lookup that could not do so while it read; None where that takes too long.

        Args:
            claim: The claim.
            budget: The caller's.
            spent_s: Time that the store has had for this lookup already, in seconds.
        """
        left_s = self._timeout_s - spent_s
        if left_s <= 0:
            return None
        try:
            return await self._access.run(partial(self.board.claim, claim), budget=budget, cap_s=left_s)
        except Unavailable:
            return None

    async def release(self, token: str, budget: Budget) -> None:
        """Ends a claim. One that cannot be ended is answered for by its router, or ends by itself."""
        try:
            await self._access.run(partial(self.board.release, token), budget=budget, cap_s=self._step_s)
        except Unavailable as error:
            _log.debug("a run's claim was not ended", error=error.message)

    async def lead(self, router: str) -> AsyncGenerator[Sequence[str], None]:
        """Speaks for a router: yields nothing once, then tokens of its runs that are waited for.

        Raises:
            Unavailable: the store does not answer.
        """
        session, after = self._random(), _FIRST
        begun = False
        try:
            while not self._ending.is_set():
                found = await self._unharmed(self.board.hear(router, session, after, wait_ms=_HEAR_MS if begun else 1))
                if found:
                    after = found[-1][0]
                if found or not begun:
                    yield [token for _, token in found]
                begun = True
        finally:
            self._in_the_end(partial(self.board.bury, router, session))

    async def publish(self, request: cache_pb2.PublishRequest, budget: Budget) -> cache_pb2.PublishResponse:
        """Takes events of a run.

        Raises:
            Unavailable: the store does not answer.
        """
        payload = b""
        if request.events:
            payload = cache_pb2.FollowResponse(events=request.events).SerializeToString()
        publish = partial(self.board.publish, request.token, request.first_event_index, payload)
        followers = await self._access.run(publish, budget=budget, cap_s=self._step_s)
        if request.last:
            await self.release(request.token, budget)
        return cache_pb2.PublishResponse(follower_count=followers or 0, superseded=followers is None)

    async def follow(self, token: str) -> AsyncGenerator[cache_pb2.FollowResponse, None]:
        """Yields the events of a run, until it ends or is no longer led.

        Raises:
            QueueFull: too many runs are followed through this replica.
            Unavailable: the store does not answer.
        """
        if self._free <= 0:
            raise QueueFull("this replica of the cache follows as many runs as it can")
        self._free -= 1
        follower, router = self._random().hex(), None
        try:
            router = await self._unharmed(self.board.begin_to_follow(token, follower))
            after, following, told, led = _FIRST, 0, self._clock.monotonic(), router is not None
            while router is not None and not self._ending.is_set():
                # What was published before the claim ended is still there to be read.
                found = await self._unharmed(self.board.events(token, after, wait_ms=_EVENTS_MS if led else 0))
                for position, first, payload in found:
                    after = position
                    if first == RUN_ENDED or first > following:
                        # Past its end; or the store has lost what came in between.
                        return
                    try:
                        response = _from(payload, skip=following - first) if first >= 0 else None
                    except DecodeError:
                        # Damaged, or of a release that writes them otherwise: as if it had been lost.
                        _log.warning("events of a shared run cannot be read; its followers look up again")
                        return
                    if response is not None and response.events:
                        following += len(response.events)
                        yield response
                if not led:
                    return
                if not found or self._clock.monotonic() - told >= _TELL_S:
                    led = await self._unharmed(self.board.keep_following(token, router, follower))
                    told = self._clock.monotonic()
        finally:
            self._free += 1
            if router is not None:
                self._in_the_end(partial(self.board.cease_to_follow, token, router, follower))

    async def _unharmed(self, operation: Coroutine[Any, Any, _T]) -> _T:
        """Waits for an operation without cancelling it: see `access`. Its end is bounded by the adapter's timeouts."""
        task = asyncio.create_task(operation)
        self._last_things.add(task)
        task.add_done_callback(self._done)
        await asyncio.wait({task})
        return task.result()

    def _done(self, task: asyncio.Task[Any]) -> None:
        self._last_things.discard(task)
        if not task.cancelled():
            # Marks a failure as seen: the one who waited may be gone.
            task.exception()

    async def aclose(self) -> None:
        """Waits for what nobody waits for any more."""
        while self._last_things:
            await asyncio.wait(set(self._last_things))

    def _in_the_end(self, work: Callable[[], Coroutine[Any, Any, None]]) -> None:
        """Begins a last thing for one who may be gone already; what cannot be done is left to expire."""
        task = asyncio.create_task(self._last(work))
        self._last_things.add(task)
        task.add_done_callback(self._done)

    async def _last(self, work: Callable[[], Coroutine[Any, Any, None]]) -> None:
        try:
            await self._access.run(work, budget=Budget.of(self._step_s, self._clock), cap_s=self._step_s)
        except Unavailable as error:
            _log.debug("a run's last word was not written", error=error.message)


def _from(payload: bytes, *, skip: int) -> cache_pb2.FollowResponse | None:
    response = cache_pb2.FollowResponse.FromString(payload)
    events: list[router_pb2.GenerateResponse] = list(response.events)[skip:]
    return cache_pb2.FollowResponse(events=events)
