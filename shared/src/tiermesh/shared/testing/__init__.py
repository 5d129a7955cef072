"""Fakes for tests. Nothing here runs in production."""

from tiermesh.shared.testing._clock import FakeClock
from tiermesh.shared.testing._tracing import RecordedTracing, recorded_tracing

__all__ = ["FakeClock", "RecordedTracing", "recorded_tracing"]
