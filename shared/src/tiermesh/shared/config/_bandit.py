"""Routing that learns from outcomes, and what it has to show before it may decide."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

from pydantic import Field, field_validator
from tiermesh.shared.config._section import Section


class BanditConfig(Section):
    """A contextual bandit over the tiers that could answer a request. It learns from outcomes with feedback."""

    mode: Literal["off", "shadow", "live"] = "off"
    """`shadow`: it decides nothing, and what it would have decided is logged beside the static policy. `live`: it decides;
    the configuration is refused unless `report` holds a passed replay that is not too old."""
    exploration: Annotated[float, Field(ge=0, le=0.2)] = 0.02
    """Largest share of requests, and largest probability for each, that another tier is tried for than the one believed best."""
    floor: Annotated[float, Field(ge=0, le=1)] = 0.5
    """A tier weaker than the static policy's choice must be right with this probability at least to be asked instead."""
    prior_strength: Annotated[float, Field(gt=0)] = 4.0
    """How many answers what the classifier says is worth; the higher, the slower the bandit departs from it."""
    window: Annotated[int, Field(ge=100)] = 20_000
    """Newest outcomes with feedback that are learnt from."""
    refresh_s: Annotated[float, Field(ge=1)] = 60.0
    """How often the log of outcomes is learnt from."""
    state: Path = Path("bandit.json")
    """File that keeps what was learnt over restarts. Relative to the state folder."""
    report: Path | None = None
    """Report of `tiermesh replay`. Relative to this file."""
    report_max_age_days: Annotated[float, Field(gt=0)] = 7.0
    """An older report does not count for `live`."""
    tolerance: Annotated[float, Field(ge=0, le=1)] = 0.0
    """By how much the bandit may be worth less than the static policy, at the low end of the replay's interval, and pass."""

    @field_validator("mode", mode="before")
    @classmethod
    def _off_is_a_word(cls, value: object) -> object:
        # YAML reads a bare `off` as false.
        return "off" if value is False else value
