"""What each tier has taken lately, and what it will take: online estimates, updated by every answer.

Each quantity is a mean and a mean deviation with exponential forgetting, as TCP keeps for its round
trips (RFC 6298); mean + 2 deviations is about the 95th percentile for the skewed times seen here.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from tiermesh.shared.clock import Clock

_GAIN = 0.1
_UPPER = 2.0
_LEAST_PROMPT_TOKENS = 32
"""Shorter prompts count as this long: what a prefill costs at all is not the price of a token."""
_FAILURE_HALF_LIFE_S = 30.0


@dataclass(slots=True)
class Estimate:
    """Mean and mean deviation of a quantity; recent values count most."""

    mean: float = 0.0
    deviation: float = 0.0
    count: int = 0

    def observe(self, value: float) -> None:
        """Takes a value in."""
        self.count += 1
        if self.count == 1:
            self.mean, self.deviation = value, value / 2
            return
        # The first few values weigh alike, so that one odd first value is soon outvoted.
        gain = max(_GAIN, 1.0 / self.count)
        self.deviation += gain * (abs(value - self.mean) - self.deviation)
        self.mean += gain * (value - self.mean)

    @property
    def upper(self) -> float:
        """About the 95th percentile."""
        return self.mean + _UPPER * self.deviation


@dataclass(slots=True)
class _Tier:
    queue_s: Estimate = field(default_factory=Estimate)
    prefill_s_per_token: Estimate = field(default_factory=Estimate)
    decode_s_per_token: Estimate = field(default_factory=Estimate)
    answer_tokens: Estimate = field(default_factory=Estimate)
    failures: float = 0.0
    failures_at: float = 0.0


class TierEstimates:
    """What this router has seen of every tier."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._tiers: dict[str, _Tier] = {}

    def waited(self, tier: str, seconds: float) -> None:
        """Notes how long a prompt waited for a slot."""
        self._tier(tier).queue_s.observe(max(0.0, seconds))

    def answered(
        self, tier: str, *, prefill_s: float, decode_s: float, prompt_tokens: int, answer_tokens: int, choices: int
    ) -> None:
        """Notes a complete answer.

        Args:
            tier: Tier that answered.
            prefill_s: From the slot to the first token.
            decode_s: From the first token to the last.
            prompt_tokens: Length of the prompt.
            answer_tokens: Tokens of all choices, which are written side by side.
            choices: Number of choices.
        """
        found = self._tier(tier)
        found.prefill_s_per_token.observe(prefill_s / max(prompt_tokens, _LEAST_PROMPT_TOKENS))
        written = answer_tokens / max(1, choices)
        found.answer_tokens.observe(written)
        if written > 1:
            found.decode_s_per_token.observe(decode_s / (written - 1))

    def ended(self, tier: str, *, failed: bool) -> None:
        """Notes whether a call of the tier failed by the tier's fault."""
        found = self._tier(tier)
        found.failures = self.failure_rate(tier) * (1 - _GAIN) + _GAIN * failed
        found.failures_at = self._clock.monotonic()

    def failure_rate(self, tier: str) -> float:
        """Returns the share of calls that failed lately, 0 to 1; it fades while nothing is called."""
        found = self._tiers.get(tier)
        if found is None or not found.failures:
            return 0.0
        age = self._clock.monotonic() - found.failures_at
        return float(found.failures * 0.5 ** (age / _FAILURE_HALF_LIFE_S))

    def p95_s(self, tier: str, *, prompt_tokens: int, max_tokens: int, queue_free: bool = False) -> float | None:
        """Returns about the 95th percentile of the time a whole answer will take, or None if nothing is known.

        Args:
            tier: Tier to ask.
            prompt_tokens: Length of the prompt.
            max_tokens: Most tokens of one choice; fewer count where answers are usually shorter.
            queue_free: Whether the tier is known to have a slot free.
        """
        found = self._tiers.get(tier)
        if found is None or not found.prefill_s_per_token.count:
            return None
        queue = 0.0 if queue_free else found.queue_s.upper
        prefill = found.prefill_s_per_token.upper * max(prompt_tokens, _LEAST_PROMPT_TOKENS)
        tokens = min(float(max_tokens), found.answer_tokens.upper)
        return queue + prefill + found.decode_s_per_token.upper * max(0.0, tokens - 1)

    def _tier(self, name: str) -> _Tier:
        found = self._tiers.get(name)
        if found is None:
            found = self._tiers[name] = _Tier()
        return found
