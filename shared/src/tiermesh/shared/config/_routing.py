"""When an answer is not good enough, and how tiers that could all answer are weighed."""

from __future__ import annotations

from typing import Annotated, Literal, Self

from pydantic import Field, model_validator
from tiermesh.shared.config._section import Section

Share = Annotated[float, Field(ge=0, le=1)]


SafetyFlag = Literal["self_harm", "weapons", "prompt_injection", "personal_data"]
"""What the classifier looks for in prompts."""


class BandConfig(Section):
    """What a confidence means: below `top_below` the strongest tier is asked, below `next_below` the next stronger."""

    top_below: Share = 0.8
    """Confidence below which the answer goes to the strongest tier."""
    next_below: Share = 0.95
    """Confidence below which the answer goes to the next stronger tier; from here on it is accepted."""

    @model_validator(mode="after")
    def _ordered(self) -> Self:
        if self.top_below > self.next_below:
            raise ValueError(f"top_below ({self.top_below}) must not exceed next_below ({self.next_below})")
        return self


class CalibrationConfig(Section):
    """Turns what a tier's answers look like into the probability that they are right.

    The probability is the logistic function of `intercept + mean * M + window * W + margin * E`, where M is the mean
    log-probability of the tokens, W that of the worst four in a row, and E the mean distance to the second best
    token. `tiermesh calibrate` fits it.
    """

    intercept: float
    """Log odds of an answer whose tokens were all certain."""
    mean: float = 0.0
    """Weight of the mean log-probability."""
    window: float = 0.0
    """Weight of the mean log-probability of the worst four tokens in a row."""
    margin: float = 0.0
    """Weight of the mean log-probability distance between the best two tokens."""


class EscalationConfig(Section):
    """When an answer that has begun is given up for a stronger tier's."""

    enabled: bool = True
    """Whether answers are judged and given up at all."""
    hold_tokens: Annotated[int, Field(ge=1, le=256)] = 16
    """First tokens that are held back to be judged, where an escalation could still happen."""
    sure_from: Share = 0.8
    """Confidence of the classifier from which an answer is not held back."""
    share: Share = 0.1
    """Escalations, as a share of the requests that go to engines."""
    burst: Annotated[int, Field(ge=1)] = 10
    """Escalations that may come at once above that share, shared out among the routers; at least one each."""
    margin_ms: Annotated[int, Field(ge=0)] = 50
    """What must be left of the budget after the next tier's predicted time."""
    bands: dict[str, BandConfig] = Field(default={})
    """Bands by task type; `default` counts for all others."""
    calibrations: dict[str, dict[str, CalibrationConfig]] = Field(default={})
    """By tier or by the model it serves, then by task type; `default` counts for all other task types. By model, another
    model in the same tier is not taken for the one that was measured. Without one, how sure a tier's tokens are
    never escalates; repetition, refusals, safety phrases and timeouts do."""
    safety_flags: tuple[SafetyFlag, ...] = ("self_harm", "weapons")
    """A prompt in which the classifier finds one of these is sent to the strongest tier at once. Answers from rules stand."""
    safety_phrases: tuple[str, ...] = ()
    """An answer whose first tokens hold one of these, in any case, goes to a stronger tier."""

    def band(self, task_type: str) -> BandConfig:
        """Returns the band of a task type."""
        return self.bands.get(task_type) or self.bands.get("default") or _DEFAULT_BAND

    def calibration(self, tier: str, task_type: str, *, model: str = "") -> CalibrationConfig | None:
        """Returns how a tier's answers to a task type are judged, or None where that is not known.

        Args:
            tier: The tier's name, which counts first.
            task_type: Kind of work.
            model: What it serves.
        """
        known = self.calibrations.get(tier) or self.calibrations.get(model) or {}
        return known.get(task_type) or known.get("default")


_DEFAULT_BAND = BandConfig()


class BalanceConfig(Section):
    """How tiers that could all answer are weighed against each other."""

    latency_weight: Share = 0.4
    """Weight of a tier's predicted time, as a share of the budget that is left."""
    cost_weight: Share = 0.3
    """Weight of a tier's price, as a share of the dearest tier's."""
    right_probabilities: Literal["never", "measured", "always"] = "measured"
    """Whether the classifier's probabilities that a small and a large model answer rightly decide instead of complexity.
    `measured`: where its model was trained on outcomes of a fleet. `always`: also where they are only the judgement of
    those who wrote the training prompts. `never`: complexity alone decides."""
    right_weight: Annotated[float, Field(ge=0, le=10)] = 1.0
    """Weight of the probability that a tier's answer is right. With the default weights a tier that costs as much as the
    dearest is chosen over one that costs nothing where it is likelier to be right by 0.3."""
    least_right: Share = 0.0
    """Tiers less likely to be right than this are passed over where another is at least this likely."""
    failure_weight: Share = 0.3
    """Weight of the share of a tier's calls that have failed lately."""
    lead: Share = 0.1
    """How much better than the first choice another tier's score must be to come before it."""
    exploration: Share = 0.0
    """Share of requests that try another strong enough tier than the best, to learn how it does."""
    backlog: Annotated[float, Field(gt=0)] = 1.0
    """A tier is backlogged once so many prompts wait per slot."""
    spill_price_ratio: Annotated[float, Field(ge=1)] = 20.0
    """A backlogged tier's requests go to one that is at most so many times dearer."""
