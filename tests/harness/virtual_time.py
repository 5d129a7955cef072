"""An event loop whose time jumps to the next thing that is due: minutes of waiting run in moments."""

from __future__ import annotations

import asyncio
import selectors
from collections.abc import Coroutine
from typing import Any, TypeVar

T = TypeVar("T")


class _Impatient(selectors.DefaultSelector):
    """Never waits; moves the loop's clock instead."""

    now = 0.0

    def select(self, timeout: float | None = None) -> Any:
        ready = super().select(0)
        if not ready:
            if timeout is None:
                raise RuntimeError("nothing is due any more, and nothing will ever happen")
            self.now += max(0.0, timeout)
        return ready


class VirtualTime(asyncio.SelectorEventLoop):
    """An event loop that is its own clock."""

    def __init__(self) -> None:
        self._impatient = _Impatient()
        super().__init__(self._impatient)

    def time(self) -> float:
        return self._impatient.now

    def monotonic(self) -> float:
        """Seconds since the loop was made, as `Clock` wants them."""
        return self._impatient.now

    def wall(self) -> float:
        """Seconds since the Unix epoch, about."""
        return 1_700_000_000.0 + self._impatient.now


def run_in_virtual_time(work: Coroutine[Any, Any, T], loop: VirtualTime) -> T:
    """Runs a coroutine to its end, and closes the loop."""
    try:
        return loop.run_until_complete(work)
    finally:
        loop.run_until_complete(loop.shutdown_asyncgens())
        loop.close()
