"""Fakes for tests. Nothing here runs in production."""

from tiermesh.shared.testing._clock import FakeClock

__all__ = ["FakeClock"]
