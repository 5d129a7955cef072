"""The distribution that later requests are compared with, made from a log and kept in a file."""

from __future__ import annotations

import json
import math
from bisect import bisect_left
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from tiermesh.outcomes.drift.features import Value

FORMAT = 1
"""Of the file."""
LEAST_VALUES = 100
"""A feature that fewer requests have is left out of a reference, and not judged in a window."""
_BINS = 10
_LEAST_SHARE = 0.01
OTHER = "other"
"""Kinds that are rarer than one in a hundred, and those that the reference has not seen."""


class WrongReferenceError(Exception):
    """A file is no reference; the message says why."""


@dataclass(frozen=True, slots=True)
class Bins:
    """How the values of one feature are counted, and the reference's counts."""

    counts: tuple[int, ...]
    edges: tuple[float, ...] | None = None
    """Numbers: a bin holds those up to its edge, and the last one those above all edges."""
    names: tuple[str, ...] | None = None
    """Kinds: one bin each, and a last one for all others."""

    def place(self, value: Value) -> int | None:
        """Returns the bin of a value; None where it is not of this feature's type."""
        if self.names is not None:
            return self.names.index(value) if value in self.names else len(self.names)
        if self.edges is None or isinstance(value, str):
            return None
        return bisect_left(self.edges, value)

    @property
    def total(self) -> int:
        """Values counted."""
        return sum(self.counts)


@dataclass(frozen=True, slots=True)
class Reference:
    """How requests were distributed, by feature."""

    record_count: int
    since: str
    """When the oldest request arrived, ISO 8601."""
    until: str
    features: Mapping[str, Bins]


def make_reference(rows: Sequence[Mapping[str, Value]], *, since: str, until: str) -> Reference:
    """Returns the distribution of requests.

    Numbers are counted in up to ten bins of about equal counts; where many are equal, in fewer. Kinds are counted by
    name; those that are rarer than one in a hundred together.

    Raises:
        WrongReferenceError: too few requests.
    """
    if len(rows) < LEAST_VALUES:
        raise WrongReferenceError(f"{len(rows)} requests are too few for a reference; {LEAST_VALUES} is the least")
    columns: dict[str, list[Value]] = {}
    for row in rows:
        for name, value in row.items():
            columns.setdefault(name, []).append(value)
    features = {name: _bins(values) for name, values in sorted(columns.items()) if len(values) >= LEAST_VALUES}
    return Reference(len(rows), since, until, features)


def count_window(reference: Reference, rows: Iterable[Mapping[str, Value]]) -> dict[str, list[int]]:
    """Returns how requests fall into the bins of a reference, per feature."""
    counts = {name: [0] * len(bins.counts) for name, bins in reference.features.items()}
    for row in rows:
        for name, bins in reference.features.items():
            place = bins.place(row[name]) if name in row else None
            if place is not None:
                counts[name][place] += 1
    return counts


def write_reference(reference: Reference) -> str:
    """Returns a reference as a file's text."""
    features = {
        name: {key: value for key, value in asdict(bins).items() if value is not None}
        for name, bins in reference.features.items()
    }
    found = {
        "format": FORMAT,
        "record_count": reference.record_count,
        "since": reference.since,
        "until": reference.until,
        "features": features,
    }
    return json.dumps(found, ensure_ascii=False, indent=1) + "\n"


def read_reference(path: Path) -> Reference:
    """Reads a reference.

    Raises:
        WrongReferenceError: the file cannot be read or is none.
    """
    hint = "write one with `tiermesh drift reference`"
    try:
        raw = json.loads(path.read_text(encoding="utf-8"))
        if raw["format"] != FORMAT:
            raise WrongReferenceError(
                f"{path}: has format {raw['format']!r}, and this is tiermesh for {FORMAT}; {hint}"
            )
        features = {str(name): _read_bins(bins) for name, bins in raw["features"].items()}
        return Reference(int(raw["record_count"]), str(raw["since"]), str(raw["until"]), features)
    except OSError as error:
        raise WrongReferenceError(f"{path}: cannot be read ({error.strerror}); {hint}") from None
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise WrongReferenceError(f"{path}: is no reference ({error!r}); {hint}") from None


def _bins(values: Sequence[Value]) -> Bins:
    numbers = sorted(value for value in values if not isinstance(value, str))
    if len(numbers) < len(values):
        named = Counter(str(value) for value in values)
        names = tuple(name for name, count in sorted(named.items()) if count >= _LEAST_SHARE * len(values))
        return _counted(Bins((), names=names), values, len(names) + 1)
    cuts = [numbers[min(len(numbers) - 1, round(len(numbers) * n / _BINS) - 1)] for n in range(1, _BINS)]
    often = {cut for cut in cuts if cuts.count(cut) > 1}
    # The largest value is no edge by itself: above it the reference would have an empty bin by construction. One that
    # many requests have is told apart from those on either side, so that leaving it shows.
    found = {cut for cut in cuts if cut < numbers[-1] or cut in often} | {
        math.nextafter(cut, -math.inf) for cut in often
    }
    edges = tuple(sorted(found)) or (numbers[-1],)
    return _counted(Bins((), edges=edges), values, len(edges) + 1)


def _counted(bins: Bins, values: Iterable[Value], size: int) -> Bins:
    counts = [0] * size
    for value in values:
        place = bins.place(value)
        if place is not None:
            counts[place] += 1
    return Bins(tuple(counts), bins.edges, bins.names)


def _read_bins(raw: Mapping[str, Any]) -> Bins:
    counts = tuple(int(count) for count in raw["counts"])
    edges = tuple(float(edge) for edge in raw["edges"]) if "edges" in raw else None
    names = tuple(str(name) for name in raw["names"]) if "names" in raw else None
    if (edges is None) == (names is None) or len(counts) != len(edges or names or ()) + 1 or min(counts) < 0:
        raise ValueError("a feature needs edges or names, and one count more")
    if edges is not None and list(edges) != sorted(set(edges)):
        raise ValueError("edges must rise")
    return Bins(counts, edges, names)
