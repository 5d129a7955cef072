"""Lanes: what a request may take, hop by hop, by how hard it is and who waits for it."""

from __future__ import annotations

from typing import Annotated, Self

from pydantic import Field, model_validator
from tiermesh.shared.config._section import Section

Milliseconds = Annotated[int, Field(ge=1)]


class LaneConfig(Section):
    """Caps and reserves of one lane. Network, queue, model and finish share out its deadline."""

    deadline_ms: Milliseconds = 500
    """What a whole request of this lane should take at most."""
    network_ms: Milliseconds = 100
    """Share for the way to an engine and back."""
    queue_ms: Milliseconds = 50
    """Share for waiting for an engine's slot."""
    model_ms: Milliseconds = 250
    """Share for the first token, once there is a slot."""
    finish_ms: Milliseconds = 100
    """Share for the tokens after the first, and for ending the answer."""

    @property
    def first_token_ms(self) -> int:
        """How long a tier's first token may take before a stronger tier is asked instead."""
        return self.network_ms + self.queue_ms + self.model_ms

    @model_validator(mode="after")
    def _shares_fit(self) -> Self:
        shares = self.first_token_ms + self.finish_ms
        if shares > self.deadline_ms:
            raise ValueError(
                f"network_ms + queue_ms + model_ms + finish_ms ({shares}) must not exceed deadline_ms ({self.deadline_ms})"
            )
        return self


class ComplexLaneConfig(LaneConfig):
    """The lane of hard requests."""

    deadline_ms: Milliseconds = 3000
    """What a whole request of this lane should take at most."""
    network_ms: Milliseconds = 100
    """Share for the way to an engine and back."""
    queue_ms: Milliseconds = 400
    """Share for waiting for an engine's slot."""
    model_ms: Milliseconds = 1000
    """Share for the first token, once there is a slot."""
    finish_ms: Milliseconds = 1500
    """Share for the tokens after the first, and for ending the answer."""


class BatchLaneConfig(LaneConfig):
    """The lane of requests that nobody waits for."""

    deadline_ms: Milliseconds = 600_000
    """What a whole request of this lane should take at most."""
    network_ms: Milliseconds = 1000
    """Share for the way to an engine and back."""
    queue_ms: Milliseconds = 300_000
    """Share for waiting for an engine's slot."""
    model_ms: Milliseconds = 60_000
    """Share for the first token, once there is a slot."""
    finish_ms: Milliseconds = 239_000
    """Share for the tokens after the first, and for ending the answer."""


class LanesConfig(Section):
    """Tables of caps and reserves: one for easy requests, one for hard ones, one for batch work."""

    simple_max_complexity: Annotated[float, Field(ge=0, le=1)] = 0.5
    """Hardest request of the simple lane."""
    default_deadlines: bool = False
    """Whether callers that send no deadline get their lane's `deadline_ms`; otherwise `deadlines.default_ms` alone counts."""
    simple: LaneConfig = LaneConfig()
    complex: ComplexLaneConfig = ComplexLaneConfig()
    batch: BatchLaneConfig = BatchLaneConfig()

    def table(self, name: str) -> LaneConfig:
        """Returns the table of the lane `simple`, `complex` or `batch`.

        Raises:
            KeyError: there is no such lane.
        """
        return {"simple": self.simple, "complex": self.complex, "batch": self.batch}[name]
