"""What one way through the router yields."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tiermesh.api.common.v1 import answer_pb2
from tiermesh.api.router.v1 import router_pb2


@dataclass(frozen=True, slots=True)
class Completed:
    """The end of a complete answer."""

    finishes: Sequence[answer_pb2.ChoiceFinish]
    usage: answer_pb2.Usage
    """Tokens over every attempt; for a cache hit, those that the answer took when it was made."""
    attempts: Sequence[router_pb2.Attempt]
    """Every engine call made; none for a cache hit."""
    from_cache: bool
    ttft_s: float
    """From the request's arrival to the first piece of text."""
    reasons: Sequence[str] = ()
    """What came up after the label."""


Event = router_pb2.RouteLabel | answer_pb2.Delta | router_pb2.Revision | Completed
"""A label first, then pieces, then perhaps a revision, then the end."""
