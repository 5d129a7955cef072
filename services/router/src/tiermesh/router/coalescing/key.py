"""Which requests are the same run."""

from __future__ import annotations

from dataclasses import dataclass

from tiermesh.api.common.v1 import chat_pb2
from tiermesh.router.caching.place import CachePlace
from tiermesh.router.call import Call


@dataclass(frozen=True, slots=True)
class RunKey:
    """What two requests must have in common to share a run."""

    tenant: str
    fingerprint: bytes
    """Of the canonical request: everything that the answer depends on, the tenant included."""
    batch: bool
    """Whether nobody waits: a request that somebody waits for must not queue behind those."""
    progressive: bool
    """Whether a revision may follow."""


def run_key(call: Call, place: CachePlace) -> RunKey:
    """Returns which run a request may share."""
    request = call.request
    batch = request.priority == chat_pb2.PRIORITY_BATCH
    return RunKey(place.key.tenant, place.key.fingerprint, batch, request.progressive)
