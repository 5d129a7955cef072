"""What is kept of requests, for the mesh to learn from."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Self

from pydantic import Field, model_validator
from tiermesh.shared.config._section import Section


class OutcomesConfig(Section):
    """The log of what came of requests."""

    enabled: bool = False
    """Whether there is such a log. Without one, feedback is refused with FEATURE_OFF."""
    sample: Annotated[float, Field(gt=0, le=1)] = 1.0
    """Share of requests that are recorded, chosen by request id, so that every router chooses alike."""
    keep_text: bool = False
    """Whether prompts and answers are kept too, without the personal data that is found in them. `tiermesh distill`
    needs them; nothing else does."""
    max_size_mb: Annotated[int, Field(ge=1)] = 512
    """Size of the log on disk; past it the oldest records are dropped."""
    max_age_days: Annotated[int, Field(ge=1)] = 90
    """Older records are dropped."""
    queue: Annotated[int, Field(ge=1)] = 4096
    """Records that may wait in a router while the log does not answer; past it the oldest are dropped."""
    drift_reference: Path | None = None
    """File written by `tiermesh drift reference`, against which the distribution of requests is compared. Relative to this
    file. None measures no drift."""
    drift_window: Annotated[int, Field(ge=100)] = 2000
    """Newest requests that are compared."""
    drift_watch: Annotated[float, Field(gt=0)] = 0.1
    """Population stability index from which a feature is worth watching."""
    drift_alert: Annotated[float, Field(gt=0)] = 0.25
    """Population stability index from which a feature has drifted."""

    @model_validator(mode="after")
    def _ordered(self) -> Self:
        if self.drift_watch > self.drift_alert:
            raise ValueError(f"drift_watch ({self.drift_watch}) must not exceed drift_alert ({self.drift_alert})")
        return self
