"""What the log-probabilities of an answer's first tokens look like: `Features`, as a calibration weighs them.

The router judges answers by them and `tiermesh judge` logs them; both must see the same.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from tiermesh.api.common.v1 import answer_pb2
from tiermesh.shared.calibration import Features

WINDOW_TOKENS = 4
"""Tokens in a row whose mean is looked at."""
_SURE_MARGIN = 10.0
"""Distance counted where an engine names no second best token."""
_FLOOR = -100.0
"""Stands in for a log-probability of minus infinity."""

Scored = tuple[float, float | None]
"""Log-probability of a token, and of the best other one where that was told."""


def scored(token: answer_pb2.TokenLogprob) -> Scored:
    """Returns what counts of a token."""
    others = [top.logprob for top in token.top if top.token_bytes != token.token_bytes or top.token != token.token]
    return token.logprob, max(others, default=None)


def features_of(tokens: Sequence[Scored]) -> Features | None:
    """Returns what tokens look like, or None where there are none."""
    if not tokens:
        return None
    chosen = [max(_FLOOR, value) for value, _ in tokens]
    window = min(WINDOW_TOKENS, len(chosen))
    worst = min(sum(chosen[n : n + window]) / window for n in range(len(chosen) - window + 1))
    margins = [
        _SURE_MARGIN if other is None else min(_SURE_MARGIN, max(-_SURE_MARGIN, value - other))
        for value, other in tokens
    ]
    return Features(math.fsum(chosen) / len(chosen), worst, math.fsum(margins) / len(margins))
