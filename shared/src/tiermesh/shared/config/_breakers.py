"""Circuit breakers: how much may be under way to a service at once, by who waits for it."""

from __future__ import annotations

from typing import Annotated, Self

from pydantic import Field, model_validator
from tiermesh.shared.config._section import Section

Requests = Annotated[int, Field(ge=1, le=1_000_000)]


class BreakersConfig(Section):
    """Most requests that one Envoy lets be under way to a service; it refuses more of them at once, without queueing.

    Batch work has a limit of its own and takes nothing of the other, so that it is the first to be refused.
    """

    interactive_requests: Requests = 4096
    """Requests that someone waits for. Calls of all services but the tiers' engines count as such."""
    batch_requests: Requests = 1024
    """Requests of batch priority."""

    @model_validator(mode="after")
    def _batch_first(self) -> Self:
        if self.batch_requests > self.interactive_requests:
            raise ValueError(
                f"batch_requests ({self.batch_requests}) must not exceed interactive_requests ({self.interactive_requests})"
            )
        return self
