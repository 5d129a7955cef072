"""What the log of outcomes is kept in."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from tiermesh.api.outcome.v1 import record_pb2


@dataclass(frozen=True, slots=True)
class Selection:
    """Which records are wanted."""

    since_us: int | None = None
    """Arrived at or after this, in microseconds since the Unix epoch."""
    until_us: int | None = None
    """Arrived before this."""
    tenant: str = ""
    """Empty for every tenant."""
    with_feedback: bool = False


@dataclass(frozen=True, slots=True)
class Place:
    """A place in the log's order, which is that of arrival."""

    arrived_us: int
    row: int


START = Place(-(2**63), 0)
"""Before every record."""


@dataclass(frozen=True, slots=True)
class Holdings:
    """What the log holds."""

    outcome_count: int
    feedback_count: int
    size_bytes: int
    oldest_us: int | None
    newest_us: int | None


class OutcomeStore(Protocol):
    """Records and opinions on disk. Every call blocks; one thread writes."""

    def add(self, outcomes: Sequence[record_pb2.Outcome]) -> list[record_pb2.Outcome]:
        """Files records in one transaction; returns those that were not there before.

        Raises:
            Unavailable: they could not be written.
        """
        ...

    def add_feedback(self, tenant: str, request_id: str, feedback: record_pb2.Feedback) -> bool:
        """Files an opinion on a tenant's newest request of that id; returns whether there is one.

        Raises:
            Unavailable: it could not be written.
        """
        ...

    def page(self, selection: Selection, *, after: Place, count: int) -> tuple[list[record_pb2.Outcome], Place]:
        """Returns up to `count` records after a place, with their feedback, and where to go on.

        Raises:
            Unavailable: the log cannot be read.
        """
        ...

    def place_of_newest(self, selection: Selection, count: int) -> Place:
        """Returns the place after which the newest `count` records lie."""
        ...

    def trim(self, *, max_bytes: int, before_us: int) -> int:
        """Drops records from before a time, then the oldest until the log fits; returns how many."""
        ...

    def holdings(self) -> Holdings:
        """Returns what the log holds."""
        ...
