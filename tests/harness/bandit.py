"""A small world in which it is known how likely each tier is to be right, and logs of it."""

from __future__ import annotations

import numpy as np
from tiermesh.api.classifier.v1 import classifier_pb2
from tiermesh.api.outcome.v1 import record_pb2
from tiermesh.shared.bandit.choice import Settings

SETTINGS = Settings(exploration=0.02, floor=0.4, right_weight=1.0, cost_weight=0.3, prior_strength=4.0)
RAW = {
    "tenants": [{"name": "a", "key_env": "K"}],
    "outcomes": {"enabled": True},
    "tiers": [
        {"name": "l1", "backend": "vllm", "model": "small", "max_complexity": 0.5, "price_in": 0.05, "price_out": 0.1},
        {"name": "l2", "backend": "vllm", "model": "large", "price_in": 0.5, "price_out": 1.0},
    ],
}


def right_of(tier, *, code):
    """How likely a tier is to be right: the small one is hopeless at code and as good as the large one at anything else."""
    return {"l1": 0.1 if code else 0.85, "l2": 0.9}[tier]


def log_of(count, *, explore=0.5, seed=0, static="l1"):
    """Outcomes of a static policy that asks one tier, and the other for a share of requests."""
    rng = np.random.default_rng(seed)
    found = []
    for n in range(count):
        code = bool(rng.random() < 0.5)
        other = "l2" if static == "l1" else "l1"
        explored = bool(rng.random() < explore)
        asked = other if explored else static
        outcome = record_pb2.Outcome(schema_version=1, request_id=f"r{n}", tenant="a", sample_rate=1.0)
        outcome.arrived.FromSeconds(1_700_000_000 + n)
        outcome.features.task_type = classifier_pb2.TASK_TYPE_CODE if code else classifier_pb2.TASK_TYPE_QA
        outcome.features.complexity = 0.5
        outcome.features.prompt_token_count = 100
        chances = {static: 1 - explore, other: explore}
        for tier in sorted(chances, key=lambda name: name != asked):
            outcome.decision.candidates.add(tier=tier, probability=chances[tier])
        outcome.decision.policy, outcome.decision.propensity = "static", chances[asked]
        outcome.decision.explored = explored
        outcome.result.tier, outcome.result.outcome = asked, "ok"
        outcome.feedback.add(
            score=float(rng.random() < right_of(asked, code=code)), source=record_pb2.FEEDBACK_SOURCE_CHECK
        )
        found.append(outcome)
    return found
