"""The models that a caller may name, in OpenAI's shape."""

from __future__ import annotations

from typing import Any

import orjson
from tiermesh.router.policy.models import model_names, pinned_tiers
from tiermesh.router.settings import Snapshot

_OWNER = "tiermesh"


def list_models(snapshot: Snapshot) -> bytes:
    """Returns `auto`, every tier and every served model as a list document."""
    models = [_model(name, snapshot) for name in model_names(snapshot.tiers)]
    return orjson.dumps({"object": "list", "data": models})


def get_model(name: str, snapshot: Snapshot) -> bytes:
    """Returns one model as a document.

    Raises:
        UnknownModel: there is no such model.
    """
    pinned_tiers(name or "(empty)", snapshot.tiers)
    return orjson.dumps(_model(name, snapshot))


def _model(name: str, snapshot: Snapshot) -> dict[str, Any]:
    return {"id": name, "object": "model", "created": snapshot.loaded_at, "owned_by": _OWNER}
