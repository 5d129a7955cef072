"""Everything that this router knows of its tiers at one moment, behind one door."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from tiermesh.api.engine.v1 import engine_pb2
from tiermesh.router.escalation.gates import Target
from tiermesh.router.escalation.quota import EscalationQuota
from tiermesh.router.policy.ranking import TierView
from tiermesh.router.tiers.breakers import Breakers
from tiermesh.router.tiers.estimates import TierEstimates
from tiermesh.router.tiers.health import TierHealth
from tiermesh.router.tiers.loads import TierLoad, TierLoads
from tiermesh.shared.config import BalanceConfig, LaneConfig, TierConfig, TiermeshConfig


@dataclass(frozen=True, slots=True)
class TierWatch:
    """Health, load, estimates, the escalation quota and circuit breakers."""

    health: TierHealth
    loads: TierLoads
    estimates: TierEstimates
    quota: EscalationQuota
    breakers: Breakers

    def feedback(self, tier: str, report: engine_pb2.WatchLoadResponse) -> None:
        """Takes in what an answer told of the load of its engine."""
        self.loads.feedback(tier, report.instance, TierLoad.of(report))

    def p95_s(self, tier: TierConfig, lane: LaneConfig, *, prompt_tokens: int, answer_tokens: int) -> float:
        """Returns the predicted 95th percentile of a tier's answer in seconds.

        A tier that has not answered yet is expected to take its lane's shares.
        """
        load = self.loads.current().get(tier.name)
        known = self.estimates.p95_s(
            tier.name,
            prompt_tokens=prompt_tokens,
            max_tokens=min(answer_tokens, tier.answer_tokens),
            queue_free=load is not None and load.has_free_slot,
        )
        return (lane.queue_ms + lane.model_ms + lane.finish_ms) / 1000 if known is None else known

    def target(
        self,
        tier: TierConfig,
        lane: LaneConfig,
        config: TiermeshConfig,
        *,
        prompt_tokens: int,
        answer_tokens: int,
        priority: int,
    ) -> Target:
        """Returns a tier as the gates look at it, for a request of that size and priority."""
        load = self.loads.current().get(tier.name)
        return Target(
            tier.name,
            healthy=tier.name not in self.health.unavailable(),
            has_room=(load is None or not load.backlogged(config.balance.backlog))
            and tier.name not in self.breakers.open_for(priority),
            p95_s=self.p95_s(tier, lane, prompt_tokens=prompt_tokens, answer_tokens=answer_tokens),
        )

    def views(
        self, tiers: Sequence[TierConfig], *, prompt_tokens: int, answer_tokens: int, balance: BalanceConfig
    ) -> Mapping[str, TierView]:
        """Returns how tiers do now, as far as anything is known, for a request of that size."""
        loads = self.loads.current()
        found: dict[str, TierView] = {}
        for tier in tiers:
            load = loads.get(tier.name)
            p95_s = self.estimates.p95_s(
                tier.name,
                prompt_tokens=prompt_tokens,
                max_tokens=min(answer_tokens, tier.answer_tokens),
                queue_free=load is not None and load.has_free_slot,
            )
            backlogged = load is not None and load.backlogged(balance.backlog)
            found[tier.name] = TierView(p95_s, self.estimates.failure_rate(tier.name), backlogged)
        return found
