"""What has become of one request so far, for the log of outcomes.

Every part of the way through the router leaves what it has found, by reference; nothing is copied or
computed before the request has ended.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from tiermesh.api.classifier.v1 import classifier_pb2
from tiermesh.api.common.v1 import answer_pb2
from tiermesh.api.outcome.v1 import record_pb2
from tiermesh.api.router.v1 import router_pb2
from tiermesh.router.escalation.confidence import Judgement
from tiermesh.router.events import Completed
from tiermesh.router.policy.candidates import Decision

STATIC = "static"
"""Name of the policy that learns nothing."""


@dataclass(slots=True)
class Trail:
    """Filled while the request is under way; read once, at its end."""

    cache: router_pb2.CacheFinding | None = None
    """What the answer cache said of it; None where it said nothing."""
    judgement: classifier_pb2.ClassifyResponse | None = None
    decision: Decision | None = None
    policy: str = STATIC
    """What put the candidates into their order."""
    policy_version: str = ""
    probabilities: Mapping[str, float] | None = None
    """With which probability each candidate was put first; None where only `balance.exploration` was random."""
    expected: Mapping[str, float] = field(default_factory=dict)
    """What the policy expects of candidates, by tier."""
    shadows: Sequence[record_pb2.ShadowDecision] = ()
    """What policies beside it would have decided."""
    label: router_pb2.RouteLabel | None = None
    tries: list[tuple[router_pb2.Attempt, Judgement | None]] = field(default_factory=list)
    """Every engine call made, and what was thought of its answer."""
    deltas: Sequence[answer_pb2.Delta] = ()
    """The answer that went out."""
    revision: router_pb2.Revision | None = None
    """The stronger tier's answer that replaced it."""
    end: Completed | None = None
    """Its end, where it was complete."""
