"""Fakes for tests. Nothing here runs in production."""

from tiermesh.shared.testing._clock import FakeClock
from tiermesh.shared.testing._outcomes import FakeOutcomes
from tiermesh.shared.testing._router import ScriptedRouter, router_answer
from tiermesh.shared.testing._services import FakeCache, FakeClassifier, ScriptedEngine, answer_steps
from tiermesh.shared.testing._store import FakeAnswerStore
from tiermesh.shared.testing._tracing import RecordedTracing, recorded_tracing

__all__ = [
    "FakeAnswerStore",
    "FakeCache",
    "FakeClassifier",
    "FakeClock",
    "FakeOutcomes",
    "RecordedTracing",
    "ScriptedEngine",
    "ScriptedRouter",
    "answer_steps",
    "recorded_tracing",
    "router_answer",
]
