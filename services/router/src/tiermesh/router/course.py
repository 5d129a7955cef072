"""One request's way through the tiers: which are left, why it moved, what it has cost so far."""

from __future__ import annotations

from collections.abc import Sequence

from tiermesh.api.common.v1 import answer_pb2
from tiermesh.api.router.v1 import router_pb2
from tiermesh.router.call import Call
from tiermesh.router.escalation.confidence import SAFETY, Judgement, Step
from tiermesh.router.escalation.gates import Gates, pass_gates, skipped
from tiermesh.router.policy.candidates import Decision
from tiermesh.router.policy.ranking import DEGRADED
from tiermesh.router.policy.verdicts import LAST_RESORT
from tiermesh.router.telling.metrics import RequestMetrics
from tiermesh.router.tiers.tier_attempt import TierAttempt
from tiermesh.router.tiers.watch import TierWatch
from tiermesh.shared.budget import Budget
from tiermesh.shared.config import LaneConfig, TierConfig
from tiermesh.shared.errors import TiermeshError


class Course:
    """The state of one request while its candidates are tried; no tier is tried twice.

    Args:
        call: The request.
        decision: Its candidates, at least one.
        watch: What is known of the tiers.
        metrics: Counts skipped escalations.
    """

    def __init__(self, call: Call, decision: Decision, watch: TierWatch, metrics: RequestMetrics) -> None:
        self.call = call
        self.decision = decision
        self.reasons = list(decision.reasons)
        """For the label."""
        self.later: list[str] = []
        """What came up after the label had gone out."""
        self.attempts: list[router_pb2.Attempt] = []
        self.failures: list[tuple[str, TiermeshError]] = []
        self.usage = answer_pb2.Usage()
        """Tokens over every attempt."""
        self.escalation_skipped = False
        """Whether an answer that was not good enough is given all the same."""
        self.complete: TierAttempt | None = None
        """The last answer that was rejected although it had come to its end: given if no better one comes."""
        self.lane: LaneConfig = call.snapshot.config.lanes.table(decision.lane)
        self._watch = watch
        self._metrics = metrics
        self._untried = list(decision.candidates)
        self._rank = {tier.name: n for n, tier in enumerate(call.snapshot.tiers)}

    def budget(self) -> Budget:
        """Returns what an engine call may take now."""
        return self.call.caller.budget.child(reserve=self.call.snapshot.config.deadlines.reserve_ms / 1000)

    def first(self) -> TierConfig:
        """Returns the tier to begin with, and takes it: the first candidate, or a stronger one for a flagged prompt.

        What is passed over for the sake of safety stays a candidate, should the stronger tier fail.
        """
        first = self._untried[0]
        escalation = self.call.snapshot.config.escalation
        flagged = escalation.enabled and not set(escalation.safety_flags).isdisjoint(self.decision.safety_flags)
        if flagged and not self.decision.pinned and first.backend != "rules" and self.has_stronger(first):
            gates = self.gates(first, Step.TOP)
            if gates.tier is not None:
                self.reasons.append(f"{SAFETY}:{first.name}")
                self._metrics.escalated(tier=first.name, why=SAFETY)
                return self.take(gates.tier)
            self.reasons.append(self.skip(gates.shut))
        return self._untried.pop(0)

    def next(self) -> TierConfig | None:
        """Returns the next candidate in policy's order, and takes it; None where none is left."""
        return self._untried.pop(0) if self._untried else None

    def take(self, name: str) -> TierConfig:
        """Takes a tier that a gate has let through; it counts against the quota."""
        self._watch.quota.take()
        tier = next(tier for tier in self._untried if tier.name == name)
        self._untried.remove(tier)
        return tier

    def has_stronger(self, tier: TierConfig) -> bool:
        """Returns whether the configuration has a stronger tier than `tier` at all."""
        return self._rank[tier.name] < len(self._rank) - 1

    def gates(self, tier: TierConfig, step: Step) -> Gates:
        """Returns where a request that was with `tier` may go.

        Args:
            tier: Where it was.
            step: Whether the strongest tier is wanted, or the next stronger.
        """
        stronger = [other for other in self._untried if self._rank[other.name] > self._rank[tier.name]]
        stronger.sort(key=lambda other: self._rank[other.name], reverse=step is Step.TOP)
        return self._pass(stronger)

    def gates_anywhere(self) -> Gates:
        """Returns where a request may go that a tier could not serve in time: to any tier that can."""
        return self._pass(self._untried)

    def skip(self, gate: str) -> str:
        """Notes that an answer was not good enough, and why it is given all the same; returns the reason."""
        self.escalation_skipped = True
        self._metrics.skipped(gate=gate)
        return skipped(gate)

    def ended(self, attempt: router_pb2.Attempt, judgement: Judgement | None) -> None:
        """Takes an attempt in, and what was thought of its answer."""
        self.attempts.append(attempt)
        self.call.trail.tries.append((attempt, judgement))
        self.usage.prompt_token_count += attempt.usage.prompt_token_count
        self.usage.completion_token_count += attempt.usage.completion_token_count
        self.usage.cached_prompt_token_count += attempt.usage.cached_prompt_token_count

    def label_reasons(self, tier: TierConfig) -> Sequence[str]:
        """Returns the reasons of an answer by `tier`."""
        told = LAST_RESORT in self.reasons or DEGRADED in self.reasons
        if tier.name in self.decision.last_resort and not told:
            return [*self.reasons, LAST_RESORT]
        return self.reasons

    def _pass(self, tiers: Sequence[TierConfig]) -> Gates:
        config, decision = self.call.snapshot.config, self.decision
        targets = [
            self._watch.target(
                tier,
                self.lane,
                config,
                prompt_tokens=decision.prompt_tokens,
                answer_tokens=decision.answer_tokens,
                priority=self.call.request.priority,
            )
            for tier in tiers
        ]
        return pass_gates(
            targets,
            quota_open=self._watch.quota.open,
            left_s=self.budget().remaining(),
            margin_s=config.escalation.margin_ms / 1000,
        )
