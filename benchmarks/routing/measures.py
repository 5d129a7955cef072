"""What a ranking of prompts by need of the strong model is worth.

A router sends the prompts it ranks highest to the strong model. As the share it may send grows from none to all,
quality goes from the weak model's to the strong model's; the *performance gap recovered* (PGR) is how far along it is.
APGR is the mean PGR over all shares: 0.5 for chance, above 1 only for rankings that also know where the strong model is
the wrong one. CPT50 and CPT80 are the smallest shares that recover 50% and 80% of the gap (Ong et al., RouteLLM, 2024).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
BOOTSTRAPS = 400


@dataclass(frozen=True, slots=True)
class Measured:
    """Of one router on one set."""

    apgr: float
    apgr_ci: tuple[float, float]
    """Middle 95% of the APGR over resampled prompts; the fitted router is held fixed."""
    cpt50: float
    cpt50_ci: tuple[float, float]
    cpt80: float
    cpt80_ci: tuple[float, float]
    shares: Floats
    """Points of the curve."""
    quality: Floats
    """Share of right answers at each point."""


def gap_recovered(scores: Floats, weak: Floats, strong: Floats) -> tuple[Floats, Floats]:
    """Returns PGR and quality after 0, 1, ... n prompts sent to the strong model; ties are broken by chance."""
    gains = (strong - weak)[_order(scores)]
    gathered = np.concatenate([[0.0], np.cumsum(gains)])
    return gathered / gathered[-1], (weak.sum() + gathered) / len(weak)


def area(pgr: Floats) -> float:
    """Returns the mean of a curve over its whole width."""
    return float(np.trapezoid(pgr, dx=1 / (len(pgr) - 1)))


def share_needed(pgr: Floats, part: float) -> float:
    """Returns the smallest share of strong calls that recovers a part of the gap."""
    return float(np.argmax(pgr >= part)) / (len(pgr) - 1)


def measure(scores: Floats, weak: Floats, strong: Floats, seed: int = 0) -> Measured:
    """Measures a ranking; higher scores go to the strong model first."""
    pgr, quality = gap_recovered(scores, weak, strong)
    order = _order(scores)
    gains, count = (strong - weak)[order], len(weak)
    rng = np.random.default_rng(seed)
    drawn: list[tuple[float, float, float]] = []
    for _ in range(BOOTSTRAPS):
        times = rng.multinomial(count, np.full(count, 1 / count))
        gathered = np.cumsum(times * gains)
        if gathered[-1] > 0:
            widths = times / count
            middle = gathered - times * gains / 2
            sent = np.cumsum(widths)
            half, most = (float(sent[np.argmax(gathered >= part * gathered[-1])]) for part in (0.5, 0.8))
            drawn.append((float((middle * widths).sum() / gathered[-1]), half, most))
    (low, low50, low80), (high, high50, high80) = np.quantile(drawn, [0.025, 0.975], axis=0)
    points = np.unique(np.linspace(0, count, 201).astype(int))
    return Measured(
        area(pgr),
        (float(low), float(high)),
        share_needed(pgr, 0.5),
        (float(low50), float(high50)),
        share_needed(pgr, 0.8),
        (float(low80), float(high80)),
        points / count,
        quality[points],
    )


def _order(scores: Floats) -> NDArray[np.intp]:
    chance = np.random.default_rng(0).random(len(scores))
    return np.asarray(np.lexsort((chance, -scores)), np.intp)
