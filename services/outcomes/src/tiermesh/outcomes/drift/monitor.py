"""Watches the newest requests: counts in bins, and a word in the log when a feature's state changes."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable

from tiermesh.api.outcome.v1 import record_pb2
from tiermesh.outcomes.drift.features import features_of
from tiermesh.outcomes.drift.measure import LEVELS, OK, TOO_FEW, Marks, Measured, measure
from tiermesh.outcomes.drift.reference import Reference
from tiermesh.shared.telemetry import get_logger

LOOK_EVERY = 100
"""Requests between two looks."""
_log = get_logger(__name__)


class DriftMonitor:
    """The window, and what it says.

    Args:
        reference: What it is compared with.
        window: Number of newest requests that are compared.
        marks: From where on a movement counts.
    """

    def __init__(self, reference: Reference, *, window: int, marks: Marks) -> None:
        self._reference = reference
        self._marks = marks
        self._rows: deque[dict[str, int]] = deque()
        self._window = window
        self._counts = {name: [0] * len(bins.counts) for name, bins in reference.features.items()}
        self._since_look = 0
        self._states = dict.fromkeys(reference.features, OK)

    def observe(self, outcomes: Iterable[record_pb2.Outcome]) -> None:
        """Takes in requests that have just been filed."""
        for outcome in outcomes:
            self._add(outcome)
            self._since_look += 1
        if self._since_look >= LOOK_EVERY:
            self._since_look = 0
            self._look()

    def measure(self) -> list[Measured]:
        """Returns how each feature has moved, the most first."""
        return measure(self._reference, self._counts, self._marks)

    def _add(self, outcome: record_pb2.Outcome) -> None:
        row = {}
        for name, value in features_of(outcome).items():
            bins = self._reference.features.get(name)
            place = None if bins is None else bins.place(value)
            if place is not None:
                row[name] = place
                self._counts[name][place] += 1
        self._rows.append(row)
        if len(self._rows) > self._window:
            for name, place in self._rows.popleft().items():
                self._counts[name][place] -= 1

    def _look(self) -> None:
        for found in self.measure():
            before = self._states[found.feature]
            now = OK if found.state == TOO_FEW else found.state
            self._states[found.feature] = now
            if now == before:
                continue
            told = {"feature": found.feature, "psi": round(found.psi, 3), "chance": round(found.chance, 3)}
            if LEVELS[now] > LEVELS[before]:
                _log.warning("the distribution of requests has moved", state=now, requests=found.window_count, **told)
            else:
                _log.info("the distribution of requests has come back", state=now, **told)
