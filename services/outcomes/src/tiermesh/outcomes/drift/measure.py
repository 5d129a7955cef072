"""Compares a window of requests with the reference: pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from tiermesh.outcomes.drift.psi import chance_index, stability_index
from tiermesh.outcomes.drift.reference import LEAST_VALUES, Bins, Reference

OK, WATCH, DRIFT, TOO_FEW = "ok", "watch", "drift", "too_few"
"""States of a feature."""
LEVELS = {TOO_FEW: 0.0, OK: 0.0, WATCH: 1.0, DRIFT: 2.0}
"""States as a number for alerts: the higher, the worse."""


@dataclass(frozen=True, slots=True)
class Marks:
    """Indices from which a feature is worth watching, and has drifted."""

    watch: float = 0.1
    alert: float = 0.25


@dataclass(frozen=True, slots=True)
class Measured:
    """How one feature has moved."""

    feature: str
    psi: float
    chance: float
    """Index that the same distribution exceeds once in a hundred windows of this size."""
    window_count: int
    reference_count: int
    state: str


def measure(reference: Reference, counts: Mapping[str, Sequence[int]], marks: Marks) -> list[Measured]:
    """Returns how each feature of the reference has moved, the most first.

    Args:
        reference: What is compared with.
        counts: Of the window, per feature and bin.
        marks: From where on a movement counts.
    """
    found = [_measured(name, bins, counts[name], marks) for name, bins in reference.features.items()]
    return sorted(found, key=lambda each: (-each.psi, each.feature))


def _measured(feature: str, bins: Bins, window: Sequence[int], marks: Marks) -> Measured:
    count = sum(window)
    if not count:
        return Measured(feature, 0.0, 0.0, 0, bins.total, TOO_FEW)
    psi, chance = stability_index(bins.counts, window), chance_index(len(bins.counts), bins.total, count)
    if count < LEAST_VALUES:
        state = TOO_FEW
    elif psi <= chance or psi < marks.watch:
        state = OK
    else:
        state = DRIFT if psi >= marks.alert else WATCH
    return Measured(feature, psi, chance, count, bins.total, state)
