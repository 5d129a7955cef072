"""How busy the engine is, and a way to wait for that to change."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Load:
    """The engine's load at one moment."""

    running: int
    waiting: int
    slots: int
    queue_limit: int
    kv_cache_utilization: float
    aborted: int
    """Prompts given up since start because the caller had gone."""
    generated_tokens: int
    """Tokens generated since start."""
    hopeless: int = 0
    """Prompts since start whose predicted end was past their deadline."""
    hopeless_finished: int = 0
    """Those of them that ended in time after all."""
    prefix_queried_tokens: int = 0
    """Prompt tokens since start that were looked for in the backend's prefix cache."""
    prefix_hit_tokens: int = 0
    """Those of them whose KV cache was found."""


class Changes:
    """A signal to any number of readers that something has changed."""

    def __init__(self) -> None:
        self._next = asyncio.Event()

    def announce(self) -> None:
        """Wakes everyone who waits."""
        fired, self._next = self._next, asyncio.Event()
        fired.set()

    def next(self) -> asyncio.Event:
        """Returns the event that the next change sets; take it before looking, so that none is missed."""
        return self._next
