"""What sampling by cluster yields."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Chosen:
    """One request that was sampled."""

    index: int
    cluster: int


@dataclass(frozen=True, slots=True)
class Sampled:
    """What was sampled."""

    chosen: tuple[Chosen, ...]
    """By cluster, in each the most typical first."""
    sizes: tuple[int, ...]
    """Requests in each cluster, near-duplicates included."""
    alike_count: int
    """Requests that were passed over because one like them had been chosen."""
