"""How long the cache bears with the store in what is no lookup."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Leeway:
    """All in seconds. The defaults suit a mesh; whoever watches a cache on a machine that stalls gives it more."""

    step_s: float = 1.0
    """One step of an invalidation or of a run that is shared."""
    sweep_s: float = 2.0
    """Deleting what an invalidation of a tenant has already hidden."""
    heard_s: float = 3.0
    """The other replicas, to say that they forget, too; one that is gone is waited for as long as it might answer from
    memory, which is less."""


USUAL = Leeway()
