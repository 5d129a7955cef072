"""An engine that reports whatever load a test wants, out of band."""

from __future__ import annotations

from tiermesh.engine.load import Load
from tiermesh.engine.orca import LoadReporter
from tiermesh.shared.rpc import Service


class ReportedLoad:
    """A load that a test sets, and the service that reports it."""

    def __init__(self, ending) -> None:
        self.running = 0
        self.waiting = 0
        self.reports = 0
        """How often it was reported."""
        self._reporter = LoadReporter(self._now, ending)

    def _now(self) -> Load:
        self.reports += 1
        return Load(self.running, self.waiting, 4, 64, kv_cache_utilization=0.0, aborted=0, generated_tokens=0)

    def service(self) -> Service:
        """Returns how to host it."""
        return self._reporter.service()
