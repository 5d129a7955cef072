"""Waits for the first events of an engine call, but not beyond the point where another tier should be asked."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable
from typing import Self, TypeVar

_Event = TypeVar("_Event")


class TooSlowError(Exception):
    """The call was given up: its first text is late, and another tier may be asked.

    Args:
        instead: That tier.
    """

    def __init__(self, instead: str) -> None:
        super().__init__(instead)
        self.instead = instead


class Patience:
    """Bounds how long nothing may come.

    The question whether to leave is asked once, when the time is up, and not before: what is left
    of the budget and how the other tiers do is known only then.

    Args:
        seconds: How long to wait, from the beginning of the block.
        instead: Asked when the time is up; returns the tier to be asked instead, or None to wait on.
    """

    def __init__(self, seconds: float, instead: Callable[[], str | None]) -> None:
        self._seconds = seconds
        self._instead = instead
        self._loop = asyncio.get_running_loop()
        self._timer: asyncio.TimerHandle | None = None
        self._limit: asyncio.Timeout | None = None
        self._target: str | None = None

    def __enter__(self) -> Self:
        self._timer = self._loop.call_later(self._seconds, self._time_is_up)
        return self

    def __exit__(self, *_: object) -> None:
        if self._timer is not None:
            self._timer.cancel()

    async def next(self, events: AsyncGenerator[_Event, None]) -> _Event | None:
        """Returns the next event, or None at the end.

        Raises:
            TooSlowError: the time is up, and the caller may leave. The call has been cancelled.
        """
        try:
            async with asyncio.timeout(None) as self._limit:
                return await anext(events, None)
        except TimeoutError:
            if self._target is not None:
                raise TooSlowError(self._target) from None
            raise
        finally:
            self._limit = None

    def _time_is_up(self) -> None:
        limit = self._limit
        # Between two events there is nothing to interrupt, and the call is getting on.
        if limit is None:
            return
        self._target = self._instead()
        if self._target is not None:
            limit.reschedule(self._loop.time())
