"""How long a prompt will take, from how long others took of late; pure, with time passed in."""

from __future__ import annotations

import math
from dataclasses import dataclass

_ENOUGH = 8
"""Answers from which there is a forecast."""
_WEIGHT = 0.1
"""Weight of the newest answer in every mean."""
_SURE = 1.65
"""Standard deviations that are added to be on the safe side."""
_STALE_S = 10.0
"""A forecast is dropped once no answer has ended for this long, or for twice the mean answer."""


@dataclass(frozen=True, slots=True)
class Sample:
    """What one complete answer took."""

    prompt_tokens: int
    """Prompt tokens that had to be read: those found in the KV cache are not among them."""
    prefill_s: float
    tokens: int
    """Tokens of its longest choice."""
    decode_s: float
    """From the first token to the last."""


class Forecast:
    """Means over the answers of late, the newest counting most.

    Prefill is a constant and a share per prompt token, by least squares over the same weights. An
    answer's length is the mean of late, or the caller's limit where that is lower.
    """

    def __init__(self) -> None:
        self._count = 0
        self._last_at = 0.0
        self._x = self._y = self._xx = self._xy = 0.0
        self._tokens = 0.0
        self._token_s = 0.0
        self._service_s = 0.0
        self._variance = 0.0

    def learn(self, sample: Sample, now: float) -> None:
        """Takes in a complete answer."""
        if now - self._last_at > self._patience_s():
            # What was known describes another time.
            self._count = 0
        self._count += 1
        weight = max(_WEIGHT, 1.0 / self._count)
        x, y = float(sample.prompt_tokens), sample.prefill_s
        self._x += weight * (x - self._x)
        self._y += weight * (y - self._y)
        self._xx += weight * (x * x - self._xx)
        self._xy += weight * (x * y - self._xy)
        self._tokens += weight * (sample.tokens - self._tokens)
        off = sample.prefill_s + sample.decode_s - self._service_s
        self._service_s += weight * off
        self._variance = (1.0 - weight) * (self._variance + weight * off * off)
        if sample.tokens > 1:
            self._token_s += weight * (sample.decode_s / (sample.tokens - 1) - self._token_s)
        self._last_at = now

    def unknown(self, now: float) -> bool:
        """Whether too little is known, or nothing new."""
        return self._count < _ENOUGH or now - self._last_at > self._patience_s()

    def prefill_s(self, prompt_tokens: int) -> float:
        """Returns the seconds from the slot to the first token."""
        spread = self._xx - self._x * self._x
        slope = max(0.0, (self._xy - self._x * self._y) / spread) if spread > 1e-9 else 0.0
        return max(0.0, self._y + slope * (prompt_tokens - self._x))

    def decode_s(self, max_tokens: int) -> float:
        """Returns the seconds from the first token to the last."""
        return max(0.0, min(self._tokens, max_tokens) - 1) * self._token_s

    def answer_s(self, prompt_tokens: int, max_tokens: int, *, sure: bool = False) -> float:
        """Returns the seconds from the slot to the end of the answer.

        Args:
            prompt_tokens: Length of the prompt.
            max_tokens: The caller's limit.
            sure: Whether to be on the safe side: about 19 answers in 20 take less.
        """
        mean = self.prefill_s(prompt_tokens) + self.decode_s(max_tokens)
        return mean + _SURE * math.sqrt(self._variance) if sure else mean

    def _patience_s(self) -> float:
        return max(_STALE_S, 2 * self._service_s)
