"""A span as it is kept."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from opentelemetry.proto.trace.v1 import trace_pb2
from tiermesh.traces.attributes import read_attributes

_OVERHEAD_BYTES = 600
"""Of one record's objects, measured with tracemalloc; its text comes on top."""


@dataclass(frozen=True, slots=True)
class SpanRecord:
    """One span of a trace."""

    trace_id: str
    """32 lower-case hex digits."""
    span_id: str
    """16 lower-case hex digits."""
    parent_span_id: str
    """16 lower-case hex digits, or empty for a root."""
    name: str
    service: str
    kind: str
    start_ns: int
    """Nanoseconds since the Unix epoch."""
    end_ns: int
    failed: bool
    encoded: bytes = b""
    """The OTLP span that it was, for what is read only when somebody looks at it: of most spans nobody does."""

    @property
    def attributes(self) -> Mapping[str, str]:
        """Its attributes as text."""
        return read_attributes(trace_pb2.Span.FromString(self.encoded))

    @property
    def size_bytes(self) -> int:
        """About how much memory it takes."""
        return _OVERHEAD_BYTES + len(self.name) + len(self.encoded)
