"""One prompt's place at the door."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum, auto

from tiermesh.engine.ports import Lane


class Place(Enum):
    """Where a ticket is."""

    WAITING = auto()
    RUNNING = auto()
    GONE = auto()


@dataclass(eq=False, slots=True)
class Ticket:
    """One prompt's place."""

    lane: Lane
    arrived: float
    """Seconds on the clock of the line's callers."""
    tenant: str = ""
    length: int = 0
    """Tokens of the prompt."""
    place: Place = Place.GONE
    passed: int = 0
    """How often a later ticket of the same tenant has started before it."""

    @property
    def bucket(self) -> int:
        """Lengths within a factor of two are alike."""
        return self.length.bit_length()
