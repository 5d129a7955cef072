"""What is decided about a request before an engine is called: its classification, and where it goes."""

from __future__ import annotations

import random
from collections.abc import Callable

from tiermesh.api.classifier.v1 import classifier_pb2
from tiermesh.router.call import Call
from tiermesh.router.classification import read_classification
from tiermesh.router.facts import facts_of
from tiermesh.router.learning.bandit import Bandit, with_bandit
from tiermesh.router.policy.candidates import Decision, decide
from tiermesh.router.ports import ClassifierPort
from tiermesh.router.tiers.watch import TierWatch
from tiermesh.shared.errors import TiermeshError


class Deciding:
    """Asks the classifier, and puts its answer to policy together with what is known of the tiers.

    Args:
        classifier: Judges requests.
        watch: What is known of the tiers.
        dice: Returns a number from 0 to 1, for exploration.
        bandit: What has been learnt from outcomes, where the configuration has that on.
    """

    def __init__(
        self,
        classifier: ClassifierPort,
        watch: TierWatch,
        *,
        dice: Callable[[], float] = random.random,
        bandit: Bandit | None = None,
    ) -> None:
        self._classifier = classifier
        self._watch = watch
        self._dice = dice
        self._bandit = bandit or Bandit()

    async def classify(self, call: Call) -> classifier_pb2.ClassifyResponse | None:
        """Returns what the classifier says within its cap, or None; the ledger shows what that cost."""
        wanted = call.snapshot.config.balance.right_probabilities
        request = classifier_pb2.ClassifyRequest(
            messages=call.request.messages,
            tenant=call.caller.tenant,
            max_tokens=call.request.sampling.max_tokens,
            want_right_probabilities=wanted != "never",
            only_measured_probabilities=wanted == "measured",
        )
        cap = call.snapshot.config.deadlines.classifier_ms / 1000
        begin, budget, outcome = call.account.now(), call.caller.budget.child(cap=cap), "cancelled"
        try:
            judgement = await self._classifier.classify(request, budget=budget)
            outcome = "ok"
        except TiermeshError as error:
            # Late, gone or broken alike: policy has a rule for requests that nobody judged.
            outcome = error.reason
            return None
        else:
            return judgement
        finally:
            call.account.add("classifier", begin, budget=budget, outcome=outcome)

    def decide(self, call: Call, judgement: classifier_pb2.ClassifyResponse | None, *, dry: bool = False) -> Decision:
        """Returns where a request goes.

        Args:
            call: The request.
            judgement: What the classifier said; None where it said nothing.
            dry: Whether to try nothing out at random, for a decision that is only shown.
        """
        # A long prompt is not measured twice.
        measured = judgement.estimated_prompt_token_count if judgement else 0
        facts, config = facts_of(call.request, prompt_tokens=measured), call.snapshot.config
        bandit, exploration = config.bandit.mode, config.balance.exploration
        views = self._watch.views(
            config.tiers,
            prompt_tokens=facts.prompt_tokens,
            answer_tokens=facts.max_tokens or config.router.default_answer_tokens,
            balance=config.balance,
        )
        unavailable = self._watch.health.unavailable()
        decision = decide(
            facts,
            model=call.request.model,
            classification=read_classification(judgement),
            config=config,
            unavailable=unavailable,
            views=views,
            left_s=call.caller.budget.remaining(),
            explore=not dry and bandit != "live" and exploration > 0 and self._dice() < exploration,
        )
        call.trail.expected = {tier: gain.worth for tier, gain in decision.gains.items()}
        if bandit == "off":
            return decision
        return with_bandit(
            call,
            decision,
            judgement,
            self._bandit.learnt,
            views=views,
            unavailable=unavailable,
            dice=_never if dry else self._dice,
        )


def _never() -> float:
    """Stands for dice that never try anything out."""
    return 1.0
