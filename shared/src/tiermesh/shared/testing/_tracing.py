"""Tracing that keeps its spans in memory."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from tiermesh.shared.telemetry import Tracing


class RecordedTracing(Tracing):
    """A tracer whose finished spans can be read."""

    def __init__(self) -> None:
        provider = TracerProvider()
        self._exporter = InMemorySpanExporter()
        provider.add_span_processor(SimpleSpanProcessor(self._exporter))
        super().__init__(provider.get_tracer("tiermesh"), provider)

    @property
    def finished(self) -> tuple[ReadableSpan, ...]:
        """Spans that have ended, in that order."""
        return self._exporter.get_finished_spans()

    def named(self, name: str) -> ReadableSpan:
        """Returns the only finished span of that name.

        Raises:
            LookupError: there is none, or more than one.
        """
        found = [span for span in self.finished if span.name == name]
        if len(found) != 1:
            raise LookupError(f"{len(found)} spans named {name!r} among {sorted(s.name for s in self.finished)}")
        return found[0]


@contextmanager
def recorded_tracing() -> Iterator[RecordedTracing]:
    """Opens a tracer that samples everything and exports nothing."""
    tracing = RecordedTracing()
    try:
        yield tracing
    finally:
        tracing.provider.shutdown()
