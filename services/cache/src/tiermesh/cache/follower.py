"""Follows what the replicas tell each other, so that any of them answers alike.

    say how far ─► wait for more ─► apply ─► say how far, if somebody waits for that, or now and then ─► ...

What a replica says holds for a moment only, and it answers from memory for no longer than that. So whoever forgets an
answer can wait until no replica gives it any more: each has said that it has heard, or its moment is over.
"""

from __future__ import annotations

import asyncio
import math
import secrets
from collections.abc import Mapping

from tiermesh.cache.local import LocalAnswers
from tiermesh.cache.ports import ChangeLog
from tiermesh.cache.semantic.index import QuestionIndex
from tiermesh.cache.semantic.records import PoisonedRecord, decode
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
_START = b"0"


class Follower:
    """Reads the log and applies it.

    Args:
        log: What is followed.
        local: Where changed answers are dropped.
        index: Where answered questions are remembered; None where there is no semantic tier.
        clock: Time.
    """

    def __init__(self, log: ChangeLog, local: LocalAnswers, index: QuestionIndex | None, clock: Clock) -> None:
        self._log = log
        self._local = local
        self._index = index
        self._clock = clock
        self._name = secrets.token_hex(8)
        self._said_at = -math.inf
        self._is_awaited = False
        self._heard_at: float | None = None
        self._changes = _START
        self._questions = _START
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
        page = await self._log.read(self._changes, self._questions, wait_ms=wait_ms)
        if page.is_reset:
            self.lost()
            self._changes = self._questions = _START
            if self._index is not None:
                self._index.clear()
            return 0
        for position, key in page.changes:
            self._changes = position
            self._changed(key)
        for position, fields in page.questions:
            self._questions = position
            self._answered(fields)
            # Rebuilding must not keep lookups waiting.
            if len(page.questions) > 1:
                await asyncio.sleep(0)
        self._is_awaited = page.is_awaited
        self._heard_at = self._said_at
        return len(page.changes) + len(page.questions)

    def lost(self) -> None:
        """Forgets the answers of the local layer: changes may have been missed."""
        self._heard_at = None
        self._local.drop_prefix(b"")

    def _changed(self, key: bytes) -> None:
        if key.endswith(b":"):
            self._local.drop_prefix(key)
            if self._index is not None:
                self._index.remove_prefix(key)
        else:
            self._local.drop(key)

    def _answered(self, fields: Mapping[bytes, bytes]) -> None:
        if self._index is None:
            return
        try:
            self._index.add(decode(fields))
        except PoisonedRecord as error:
            _log.warning("an entry of the log is damaged and is left out", why=str(error))
