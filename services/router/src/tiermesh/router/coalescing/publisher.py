"""Hands the events of a run to those who wait for it at other routers."""

from __future__ import annotations

import asyncio

from tiermesh.router.coalescing.flight import Flight
from tiermesh.router.coalescing.messages import message_of
from tiermesh.router.ports import RunsPort
from tiermesh.shared.budget import Budget
from tiermesh.shared.clock import Clock

PUBLISH_S = 1.0
"""Seconds that one call may take."""
_HEARTBEAT_S = 0.5
"""How often it is asked whether anybody still waits while there is nothing to publish."""


class Publisher:
    """Hands the events of one run to those who wait elsewhere; to the run it is a member like any other.

    Args:
        runs: The cache service.
        token: The run's.
        clock: Time for the budgets of calls.
        publish_s: Seconds that one call may take.
    """

    def __init__(self, runs: RunsPort, token: str, clock: Clock, *, publish_s: float = PUBLISH_S) -> None:
        self.done = asyncio.Event()
        self._runs = runs
        self._token = token
        self._clock = clock
        self._publish_s = publish_s
        self._look = asyncio.Event()

    def look(self) -> None:
        """Makes it ask at once whether anybody still waits."""
        self._look.set()

    async def disown(self) -> None:
        """Says that this router has nothing more of the run."""
        await self._runs.publish(self._token, 0, (), last=True, budget=Budget.of(self._publish_s, self._clock))

    async def run(self, flight: Flight) -> None:
        """Publishes everything from the first event on, until the run ends or nobody waits for it.

        Raises:
            TiermeshError: the cache does not take it.
        """
        if flight.claim is not None:
            flight.claim.is_wanted = True
        reader = flight.watch()
        sent, wait_s = 0, 0.0
        try:
            while True:
                self._look.clear()
                events, error, over = await reader.batch(self._look, wait_s=wait_s)
                messages = [message_of(event) for event in events]
                if error is not None:
                    messages.append(message_of(error))
                budget = Budget.of(self._publish_s, self._clock)
                followers = await self._runs.publish(self._token, sent, messages, last=False, budget=budget)
                sent, wait_s = sent + len(events), _HEARTBEAT_S
                if over or not followers:
                    return
        finally:
            reader.leave()
