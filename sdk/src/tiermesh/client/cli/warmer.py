"""Asks questions one after another, and gives way to those that somebody waits for."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass, field
from datetime import time

from tiermesh.api.router.v1 import router_pb2
from tiermesh.client.cli.warming import Window

PAUSE_S = 5.0
"""Pause after the mesh said that it is busy, times the number of tries so far; and between looks at the clock."""
TRIES = 5
GIVES_UP = 3
"""Questions in a row that the mesh had no room for, after which the others are left for another time."""


class Busy(Exception):
    """The mesh has no room for what nobody waits for, or cannot be reached; the message says which."""


class Refused(Exception):
    """The mesh does not answer this question, and will not; the message says why."""


@dataclass(slots=True)
class Report:
    """What became of the questions."""

    answered: int = 0
    cached: int = 0
    """Of those: how many the cache had already."""
    bypassed: int = 0
    """Of those: how many are not kept, such as at a temperature without a seed."""
    refused: dict[str, int] = field(default_factory=dict)
    """How many were not answered, by the reason."""
    left: int = 0
    """How many were not asked any more."""
    gave_up: str = ""
    """Why they were not."""


class Warmer:
    """Asks.

    Args:
        ask: Asks one question and returns what the cache had for it; raises `Busy` or `Refused`.
        done: Is given every question that has been answered, at once.
        window: Hours of the day in which questions are asked; None means all.
        pause_s: Pause after each question, in seconds.
        now: Time of day.
        sleep: Waits, in seconds.
        tell: Is told what is waited for.
    """

    def __init__(
        self,
        ask: Callable[[router_pb2.GenerateRequest], Awaitable[router_pb2.CacheStatus.ValueType]],
        done: Callable[[router_pb2.GenerateRequest], None],
        *,
        window: Window | None,
        pause_s: float,
        now: Callable[[], time],
        sleep: Callable[[float], Awaitable[None]],
        tell: Callable[[str], None],
    ) -> None:
        self._ask = ask
        self._done = done
        self._window = window
        self._pause_s = pause_s
        self._now = now
        self._sleep = sleep
        self._tell = tell

    async def run(self, requests: Iterable[router_pb2.GenerateRequest], report: Report) -> None:
        """Asks them all, or until the mesh has had no room for several in a row; `report` is kept up to date."""
        without_room = 0
        for request in (questions := iter(requests)):
            try:
                status = await self._ask_in_time(request)
            except Refused as error:
                report.refused[str(error)] = report.refused.get(str(error), 0) + 1
            except Busy as error:
                without_room += 1
                report.left += 1
                if without_room == GIVES_UP:
                    report.left += sum(1 for _ in questions)
                    report.gave_up = str(error)
                    return
                continue
            else:
                without_room = 0
                report.answered += 1
                report.cached += status == router_pb2.CACHE_STATUS_HIT
                report.bypassed += status == router_pb2.CACHE_STATUS_BYPASS
                self._done(request)
            if self._pause_s:
                await self._sleep(self._pause_s)

    async def _ask_in_time(self, request: router_pb2.GenerateRequest) -> router_pb2.CacheStatus.ValueType:
        for attempt in range(1, TRIES + 1):
            while self._window is not None and not self._window.holds(self._now()):
                self._tell("waiting for the window")
                await self._sleep(PAUSE_S)
            self._tell("warming")
            try:
                return await self._ask(request)
            except Busy:
                if attempt == TRIES:
                    raise
            # Live traffic needs the room more.
            self._tell("the mesh is busy")
            await self._sleep(PAUSE_S * attempt)
        raise AssertionError("the last try returns or raises")
