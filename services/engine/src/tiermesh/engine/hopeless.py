"""Prompts whose end is predicted past their deadline: counted, or refused before they queue.

A refusal on a wrong prediction turns away work that would have been done in time. So a prediction
first runs dark: prompts it calls hopeless are let in, and what becomes of them is noted. Only
while most of them do fail are others refused, and one in fifty is still let in, so that a
prediction that has become wrong is found out.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from typing import Literal

from tiermesh.shared.errors import BudgetExhausted

_REMEMBERED = 20
_ENOUGH = 10
"""Outcomes from which the prediction counts as measured."""
_RIGHT_FROM, _WRONG_FROM = 1 / 3, 3 / 4
"""Refusing begins once at most this share of hopeless prompts ended in time, and stops when more than that do.

While it refuses, only prompts near the edge are left to be called hopeless, and those can go either
way; the slot that one of them would have taken goes to a prompt that has more time.
"""
_PROBE_EVERY = 50

Mode = Literal["dark", "measured", "enforced"]


@dataclass(slots=True)
class Verdict:
    """What was predicted of one prompt."""

    predicted_s: float | None
    """Seconds until its end; None where that is not known."""
    hopeless: bool
    """Set later where that comes out only once the prompt has waited."""
    refused: bool


class HopelessWork:
    """Judges prompts, and keeps count of how right that was.

    Args:
        mode: `dark` refuses nothing, `enforced` every prompt that cannot end in time, `measured`
            those too once the prediction has proved right.
        tier: Name for messages.
        proved: Whether the prediction counts as right until it shows otherwise: for backends on which tests have
            measured it.
    """

    def __init__(self, mode: Mode, *, tier: str, proved: bool = False) -> None:
        self._mode = mode
        self._tier = tier
        self._outcomes: deque[bool] = deque(maxlen=_REMEMBERED)
        self._proved = proved
        self._refused_since_probe = 0
        self.count = 0
        """Prompts whose predicted end was past their deadline."""
        self.finished = 0
        """Those of them that were let in and ended in time: where the prediction was wrong."""

    @property
    def proved(self) -> bool:
        """Whether most prompts that were called hopeless and let in did fail, of late."""
        return self._proved

    def judge(self, predicted_s: float | None, left_s: float) -> Verdict:
        """Judges a prompt that has `left_s` seconds."""
        hopeless = predicted_s is not None and predicted_s > left_s
        if not hopeless:
            return Verdict(predicted_s, hopeless=False, refused=False)
        self.count += 1
        return Verdict(predicted_s, hopeless=True, refused=self._refuses())

    def _refuses(self) -> bool:
        if self._mode == "enforced":
            return True
        if self._mode == "dark" or not self._proved:
            return False
        self._refused_since_probe += 1
        if self._refused_since_probe < _PROBE_EVERY:
            return True
        self._refused_since_probe = 0
        return False

    def refusal(self, verdict: Verdict, left_s: float) -> BudgetExhausted:
        """Returns what the caller of a refused prompt is told."""
        return BudgetExhausted(
            f"tier {self._tier} would need about {verdict.predicted_s or 0.0:.1f} s for this prompt, queue included, and "
            f"{left_s:.1f} s of the deadline are left; send a longer deadline or a lower max_tokens"
        )

    def ended(self, verdict: Verdict, *, in_time: bool) -> None:
        """Notes what became of a prompt that was let in: a complete answer, or a deadline that passed."""
        if verdict.hopeless:
            self.finished += in_time
            self._outcomes.append(in_time)
            if len(self._outcomes) >= _ENOUGH:
                wrong = sum(self._outcomes) / len(self._outcomes)
                self._proved = wrong <= (_WRONG_FROM if self._proved else _RIGHT_FROM)
