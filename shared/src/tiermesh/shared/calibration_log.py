"""Reads a log of judged answers, and says what a calibration from it would change.

One JSON object a line:

    {"tier": "l1", "task_type": "qa", "right": true, "confidence": 0.91,
     "features": {"mean_logprob": -0.2, "worst_window_logprob": -0.9, "mean_margin": 2.4}}

`right` and `task_type` are required, and one of `confidence` and `features`; the router writes both
into its spans as `tiermesh.judged.*`, and `tiermesh judge` makes such a log. With `model`, what is fitted counts
for that model alone. `"simulated": true` marks
answers that a queueing model made up, whose `right` means as much. An export of the log of outcomes is
read too: its requests whose answer was judged, both by the router and by feedback.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from tiermesh.shared.calibration import (
    LEAST_RECORDS,
    Band,
    Costs,
    Features,
    Outcome,
    Scored,
    Weights,
    fit_band,
    fit_weights,
    outcome,
)
from tiermesh.shared.outcomes import OutcomeError, is_outcome_line, read_outcomes, task_type_of, verdict

DEFAULT = "default"
RIGHT_FROM = 0.5
"""Score of an answer from which it counts as right."""
_KEYS = frozenset({"tier", "task_type", "right", "confidence", "features", "model", "simulated"})
_FEATURES = ("mean_logprob", "worst_window_logprob", "mean_margin")


class LogError(Exception):
    """A line of the log cannot be used; the message names it."""


@dataclass(frozen=True, slots=True)
class Record:
    """One judged answer."""

    task_type: str
    right: bool
    confidence: float | None = None
    features: Features | None = None
    tier: str = ""
    model: str = ""
    simulated: bool = False


@dataclass(frozen=True, slots=True)
class Change:
    """What a calibration changes for one task type."""

    task_type: str
    count: int
    own: bool
    """Whether it has enough answers of its own; otherwise those of all task types counted."""
    weights: Weights | None
    """None where the log has no features: its confidences were taken as they are."""
    old_band: Band
    new_band: Band
    old: Outcome
    new: Outcome


def read_log(lines: Iterable[str]) -> list[Record]:
    """Returns the records of a log; blank lines are passed over.

    Raises:
        LogError: a line is not what it should be.
    """
    lines = list(lines)
    if is_outcome_line(next((line for line in lines if line.strip()), "")):
        return _from_outcomes(lines)
    found = []
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        try:
            found.append(_record(json.loads(line)))
        except (ValueError, TypeError, KeyError) as error:
            detail = f"{error.args[0]!r} is missing" if isinstance(error, KeyError) else str(error)
            raise LogError(f"line {number}: {detail}") from None
    if not found:
        raise LogError("the log is empty")
    return found


def _from_outcomes(lines: Iterable[str]) -> list[Record]:
    """Returns the judged answers of a log of outcomes: of each request, the answer that was given."""
    found, count, with_feedback = [], 0, 0
    try:
        for outcome in read_outcomes(lines):
            count += 1
            opinion = verdict(outcome)
            given = next((each for each in reversed(outcome.tries) if each.outcome == "answered"), None)
            if opinion is None or given is None:
                continue
            with_feedback += 1
            confidence = given.confidence if given.HasField("confidence") else None
            features = None
            if given.HasField("logprobs"):
                seen = given.logprobs
                features = Features(seen.mean_logprob, seen.worst_window_logprob, seen.mean_margin)
            if confidence is not None or features is not None:
                right = opinion >= RIGHT_FROM
                kind = task_type_of(outcome)
                found.append(Record(kind, right, confidence, features, given.tier, simulated=outcome.result.simulated))
    except OutcomeError as error:
        raise LogError(str(error)) from None
    if not found:
        raise LogError(
            f"of {count} records {with_feedback} have feedback, and none of them an answer that the router judged;"
            " it judges where escalation is on and a stronger tier could be asked"
        )
    return found


def calibrate(
    records: Sequence[Record],
    *,
    bands: Mapping[str, Band],
    stronger_right: float = 0.98,
    gain: float = 0.1,
    top_gain: float = 0.3,
    costs: Costs | None = None,
) -> list[Change]:
    """Returns what a calibration changes, by task type; of several, `default` comes last and counts for all others.

    Args:
        records: Judged answers of one tier.
        bands: Bands in force by task type; `default` must be there.
        stronger_right: Share of answers that a stronger tier gets right.
        gain: Escalate where a stronger tier is right so much more often.
        top_gain: Ask the strongest tier where it is right so much more often.
        costs: What answers cost.
    """
    everything = _scored(records)
    changes = []
    kinds = sorted({record.task_type for record in records})
    for kind in kinds if len(kinds) == 1 or DEFAULT in kinds else [*kinds, DEFAULT]:
        mine = [record for record in records if kind in {record.task_type, DEFAULT}]
        own = len(mine) >= LEAST_RECORDS
        weights, fitted = _scored(mine) if own else everything
        scored = fitted if own else [Scored(_confidence(record, weights), record.right) for record in mine]
        band = fit_band(fitted, stronger_right=stronger_right, gain=gain, top_gain=top_gain)
        old_band = bands.get(kind) or bands[DEFAULT]
        before = [Scored(_logged(record, weights), record.right) for record in mine]
        used = costs or Costs()
        changes.append(
            Change(
                kind,
                len(mine),
                own,
                weights,
                old_band,
                band,
                outcome(before, old_band, stronger_right=stronger_right, costs=used),
                outcome(scored, band, stronger_right=stronger_right, costs=used),
            )
        )
    return changes


def _scored(records: Sequence[Record]) -> tuple[Weights | None, list[Scored]]:
    """Returns the model of records that all have features, and every answer with its confidence."""
    featured = [(record.features, record.right) for record in records if record.features is not None]
    weights = None
    if len(featured) == len(records) and len({right for _, right in featured}) == 2:
        weights = fit_weights(featured)
    usable = [record for record in records if weights is not None or record.confidence is not None]
    return weights, [Scored(_confidence(record, weights), record.right) for record in usable]


def _confidence(record: Record, weights: Weights | None) -> float:
    if weights is not None and record.features is not None:
        return weights.confidence(record.features)
    # Features of which all were right (or wrong) say nothing yet: taken for certain, and so never escalated.
    return 1.0 if record.confidence is None else record.confidence


def _logged(record: Record, weights: Weights | None) -> float:
    return _confidence(record, weights) if record.confidence is None else record.confidence


def _record(raw: object) -> Record:
    if not isinstance(raw, dict):
        raise TypeError("must be a JSON object")
    unknown = raw.keys() - _KEYS
    if unknown:
        raise ValueError(f"{min(unknown)!r} is not known; known are {', '.join(sorted(_KEYS))}")
    kind, right, confidence = raw["task_type"], raw["right"], raw.get("confidence")
    if not isinstance(kind, str) or not kind:
        raise ValueError("task_type must be a name")
    if not isinstance(right, bool):
        raise TypeError("right must be true or false")
    if confidence is not None and not (_is_number(confidence) and 0 <= confidence <= 1):
        raise ValueError("confidence must be a number from 0 to 1")
    features = raw.get("features")
    if features is None and confidence is None:
        raise ValueError("confidence or features is required")
    simulated = raw.get("simulated", False)
    if not isinstance(simulated, bool):
        raise TypeError("simulated must be true or false")
    read = None if features is None else _features(features)
    return Record(kind, right, confidence, read, str(raw.get("tier", "")), str(raw.get("model", "")), simulated)


def _features(raw: object) -> Features:
    if not isinstance(raw, dict) or set(raw) != set(_FEATURES) or not all(map(_is_number, raw.values())):
        raise ValueError(f"features must be the numbers {', '.join(_FEATURES)}")
    return Features(**{name: float(raw[name]) for name in _FEATURES})


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)
