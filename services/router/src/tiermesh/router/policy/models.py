"""Names that a request may give as its model."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from tiermesh.shared.config import TierConfig
from tiermesh.shared.errors import UnknownModel

AUTO = "auto"
TIER_PREFIX = "tier:"
_SHOWN_CHARS = 100


def pinned_tiers(model: str, tiers: Sequence[TierConfig]) -> tuple[TierConfig, ...]:
    """Returns the tiers that a model name pins a request to; none for `auto` or an empty name.

    Several tiers may serve one model; they come in the order of the configuration.

    Raises:
        UnknownModel: there is no such tier or model; the message lists what exists.
    """
    if model in {"", AUTO}:
        return ()
    if model.startswith(TIER_PREFIX):
        found = tuple(tier for tier in tiers if tier.name == model[len(TIER_PREFIX) :])
    else:
        found = tuple(tier for tier in tiers if tier.public_model == model)
    if not found:
        shown = model if len(model) <= _SHOWN_CHARS else model[:_SHOWN_CHARS] + "…"
        raise UnknownModel(
            f'model "{shown}" does not exist; use one of: {", ".join(model_names(tiers))}', field="model"
        )
    return found


def model_names(tiers: Sequence[TierConfig]) -> Iterator[str]:
    """Yields every model name that a request may give, each once."""
    names = [AUTO, *(TIER_PREFIX + tier.name for tier in tiers), *(tier.public_model for tier in tiers)]
    yield from dict.fromkeys(names)
