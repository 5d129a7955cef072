"""Follows what the replicas tell each other, so that any of them answers alike.

    say how far ─► wait for more ─► apply ─► say how far, if somebody waits for that, or now and then ─► ...

What a replica says holds for a moment only, and it answers from memory for no longer than that. So whoever forgets an
answer can wait until no replica gives it any more: each has said that it has heard, or its moment is over.

A log that was gone for a while may have failed over, and lost what was said last. Whoever heard it says it again, for those
that start later.
"""

from __future__ import annotations

import asyncio
import math
import secrets
from collections import deque
from dataclasses import replace

from tiermesh.cache.forgotten import Forgotten
from tiermesh.cache.local import LocalAnswers
from tiermesh.cache.ports import Change, ChangeLog
from tiermesh.cache.semantic.index import QuestionIndex
from tiermesh.shared.clock import Clock
from tiermesh.shared.errors import Unavailable
from tiermesh.shared.telemetry import get_logger

_log = get_logger(__name__)
_WAIT_MS = 200
_CURRENT_S = 1.0
"""Silence after which this replica may have missed something."""
_SAY_S = 0.2
"""How often it says how far it has heard where nobody waits for that."""
_HOLDS_MS = 1_100
"""How long what is said holds, by the store's clock: longer than `_CURRENT_S`, should the clocks differ a little."""
_PAUSE_S = 0.2
_SAID_AGAIN = 100
"""Invalidations that are said again after an interruption."""
_START = b"0"


class Follower:
    """Reads the log of changes and applies it.

    Args:
        log: What is followed.
        local: Where changed answers are dropped.
        forgotten: Where invalidations are remembered.
        index: Where the questions of answers that are gone are dropped; None where there is no semantic tier.
        clock: Time.
    """

    def __init__(
        self,
        log: ChangeLog,
        local: LocalAnswers,
        forgotten: Forgotten,
        index: QuestionIndex | None,
        clock: Clock,
    ) -> None:
        self._log = log
        self._local = local
        self._forgotten = forgotten
        self._index = index
        self._clock = clock
        self._name = secrets.token_hex(8)
        self._said_at = -math.inf
        self._is_awaited = False
        self._heard_at: float | None = None
        self._changes = _START
        self._last: deque[Change] = deque(maxlen=_SAID_AGAIN)
        self._was_lost = False
        self._is_replaying = True
        """Whether what comes was said before this replica had heard anything, or before it last lost its place."""
        self.has_tried = asyncio.Event()
        """Set once the log was read to its end, or did not answer."""
        local.is_current = self.is_current

    def is_current(self) -> bool:
        """Tells whether the log was heard from just now."""
        return self._heard_at is not None and self._clock.monotonic() - self._heard_at < _CURRENT_S

    async def run(self) -> None:
        """Follows the log until cancelled; a log that does not answer is asked again."""
        while True:
            try:
                await self.step(wait_ms=_WAIT_MS)
            except Unavailable:
                self.lost()
                await asyncio.sleep(_PAUSE_S)
            except Exception as error:
                # Whatever came, a lookup must not be answered from what may be out of date.
                _log.warning("the log of changes could not be applied", error=type(error).__name__)
                self.lost()
                await asyncio.sleep(_PAUSE_S)

    async def step(self, *, wait_ms: int) -> int:
        """Reads and applies once; returns how much was heard.

        Raises:
            Unavailable: the log does not answer.
        """
        if self._is_awaited or self._clock.monotonic() - self._said_at >= _SAY_S:
            # From before it is said: the moment must be over here before it is over there.
            began = self._clock.monotonic()
            await self._log.say_heard(self._name, self._changes, holds_ms=_HOLDS_MS)
            self._said_at, self._is_awaited = began, False
        # The first time it does not wait: silence then means that all was heard.
        page = await self._log.read_changes(self._changes, wait_ms=wait_ms if self._forgotten.is_complete else 0)
        if page.is_reset:
            self.lost()
            self._changes, self._is_replaying = _START, True
            return 0
        for position, change in page.changes:
            self._changes = position
            self._apply(change)
        if self._was_lost:
            await self._say_again()
        if page.is_last:
            self._forgotten.is_complete, self._is_replaying = True, False
            self.has_tried.set()
        self._is_awaited = page.is_awaited
        self._heard_at = self._said_at
        return len(page.changes)

    def lost(self) -> None:
        """Forgets the answers of the local layer: changes may have been missed."""
        self._heard_at = None
        self._was_lost = True
        self.has_tried.set()
        self._local.drop_prefix(b"")

    async def _say_again(self) -> None:
        for change in tuple(self._last):
            await self._log.append_change(replace(change, is_repeated=True))
        self._was_lost = False

    def _apply(self, change: Change) -> None:
        if (change.ended or change.mark) and change not in self._last:
            self._last.append(change)
        self._forgotten.note(change)
        if change.key.endswith(b":"):
            self._local.drop_prefix(change.key)
            if self._index is not None and not (change.is_repeated or self._is_replaying):
                # Only to free memory: a question whose answer is gone is never given.
                self._index.remove_prefix(change.key)
        else:
            self._local.drop(change.key)
