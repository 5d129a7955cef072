"""A span as it is kept."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

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
    attributes: Mapping[str, str]

    @property
    def size_bytes(self) -> int:
        """About how much memory it takes."""
        text = len(self.name) + sum(len(key) + len(value) for key, value in self.attributes.items())
        return _OVERHEAD_BYTES + 150 * len(self.attributes) + text
