"""Keeps the bandit up to date: reads the outcomes that people and checks have judged, learns them, keeps what it has learnt.

All that is within the window is learnt anew each time. That costs milliseconds, counts no outcome twice however often
feedback comes late or is corrected, and brings every router to the same beliefs without their talking to each other.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import Path

from tiermesh.api.outcome.v1 import record_pb2
from tiermesh.router.learning.bandit import Bandit
from tiermesh.router.ports import OutcomeLog
from tiermesh.router.settings import Settings
from tiermesh.shared.bandit import Learnt, Seen, StateDamaged, learn, lesson_of, load_learnt, save_learnt
from tiermesh.shared.bandit.priors import prior_right, simulated_tiers, strengths
from tiermesh.shared.bandit.state import make_learnt
from tiermesh.shared.budget import Budget
from tiermesh.shared.clock import Clock
from tiermesh.shared.config import TiermeshConfig
from tiermesh.shared.errors import TiermeshError
from tiermesh.shared.telemetry import get_logger

READ_S = 20.0
"""Seconds that reading the log may take."""
_log = get_logger(__name__)


class BanditLearner:
    """Learns in the background.

    Args:
        bandit: Takes what has been learnt.
        outcomes: The log.
        settings: The configuration; the bandit may be switched on and off while the router runs.
        clock: Time.
        state: Folder for the file of what was learnt; None keeps nothing.
    """

    def __init__(
        self, bandit: Bandit, outcomes: OutcomeLog, settings: Settings, clock: Clock, *, state: Path | None = None
    ) -> None:
        self._bandit = bandit
        self._outcomes = outcomes
        self._settings = settings
        self._clock = clock
        self._state = state
        self._well = True

    async def run(self) -> None:
        """Learns until cancelled."""
        while True:
            config = self._settings.current.config
            if config.bandit.mode != "off":
                try:
                    await self.learn_once(config)
                    self._well = True
                except (TiermeshError, OSError) as error:
                    if self._well:
                        _log.warning("the bandit keeps what it has learnt: the log cannot be read", error=str(error))
                    self._well = False
            await asyncio.sleep(config.bandit.refresh_s)

    async def learn_once(self, config: TiermeshConfig) -> None:
        """Reads the log and learns from it.

        Raises:
            TiermeshError: the log did not answer.
            OSError: what was learnt cannot be kept.
        """
        path = None if self._state is None else self._state / config.bandit.state
        kept = self._kept(path)
        if not self._bandit.learnt.count:
            # What an earlier process has learnt counts until the log has answered, and where it does not.
            self._bandit.learnt = kept
        found = await self._outcomes.judged(
            limit=config.bandit.window, since_s=kept.since_s, budget=Budget.of(READ_S, self._clock)
        )
        learnt = await asyncio.to_thread(learn_outcomes, found, config, kept.since_s)
        if learnt.version != self._bandit.learnt.version:
            _log.info("the bandit has learnt", outcomes=learnt.count, version=learnt.version)
        self._bandit.learnt = learnt
        if path is not None and learnt.version != kept.version:
            await asyncio.to_thread(save_learnt, path, learnt)

    def _kept(self, path: Path | None) -> Learnt:
        """Returns what the file holds; a damaged one is worth nothing, and the log has everything that was in it."""
        if path is None:
            return self._bandit.learnt
        try:
            return load_learnt(path)
        except StateDamaged as error:
            _log.warning("what the bandit had learnt is lost, and is learnt anew from the log", error=str(error))
            return Learnt()


def learn_outcomes(outcomes: Sequence[record_pb2.Outcome], config: TiermeshConfig, since_s: float) -> Learnt:
    """Returns what outcomes teach; those of tiers that the configuration lacks teach nothing."""
    strength, simulated = strengths(config.tiers), simulated_tiers(config.tiers)

    def prior(tier: str, seen: Seen) -> float:
        return prior_right(seen, strength[tier])

    lessons = [
        lesson
        for outcome in outcomes
        if outcome.result.tier in strength and (lesson := lesson_of(outcome, prior, simulated=simulated)) is not None
    ]
    return make_learnt(learn(lessons, strength=config.bandit.prior_strength), since_s)
