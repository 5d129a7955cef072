"""The last traces, in memory and within bounds.

The trace that has gone longest without a new span leaves first: traces end without saying so, and
one that still grows is the one somebody is looking at.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable
from dataclasses import dataclass, field

from tiermesh.traces.records import SpanRecord


@dataclass(frozen=True, slots=True)
class Bounds:
    """How much is kept."""

    traces: int
    spans_per_trace: int = 2_000
    total_bytes: int = 64 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class Summary:
    """One line about a trace."""

    trace_id: str
    root_name: str
    start_ns: int
    end_ns: int
    span_count: int
    failed: bool


@dataclass(slots=True)
class _Trace:
    spans: dict[str, SpanRecord] = field(default_factory=dict)
    size_bytes: int = 0


class TraceStore:
    """Keeps spans by trace."""

    def __init__(self, bounds: Bounds) -> None:
        self._bounds = bounds
        self._traces: OrderedDict[str, _Trace] = OrderedDict()
        self._size_bytes = 0
        self.dropped_spans = 0
        """Spans left out because their trace was full."""

    @property
    def size_bytes(self) -> int:
        """About how much memory the spans take."""
        return self._size_bytes

    def __len__(self) -> int:
        return len(self._traces)

    def add(self, spans: Iterable[SpanRecord]) -> None:
        """Keeps spans; one that comes again, as after a sender's retry, replaces itself."""
        for span in spans:
            self._add(span)
        while self._traces and (len(self._traces) > self._bounds.traces or self._size_bytes > self._bounds.total_bytes):
            _, oldest = self._traces.popitem(last=False)
            self._size_bytes -= oldest.size_bytes

    def get(self, trace_id: str) -> tuple[SpanRecord, ...] | None:
        """Returns the spans of a trace in order of start, parents before children, or None."""
        trace = self._traces.get(trace_id)
        return None if trace is None else _ordered(trace)

    def latest(self, count: int) -> list[Summary]:
        """Returns the traces that began last, newest first."""
        summaries = [_summary(trace_id, trace) for trace_id, trace in self._traces.items()]
        summaries.sort(key=lambda summary: summary.start_ns, reverse=True)
        return summaries[:count]

    def _add(self, span: SpanRecord) -> None:
        trace = self._traces.setdefault(span.trace_id, _Trace())
        self._traces.move_to_end(span.trace_id)
        before = trace.spans.get(span.span_id)
        if before is None and len(trace.spans) >= self._bounds.spans_per_trace:
            self.dropped_spans += 1
            return
        growth = span.size_bytes - (before.size_bytes if before else 0)
        trace.spans[span.span_id] = span
        trace.size_bytes += growth
        self._size_bytes += growth


def _ordered(trace: _Trace) -> tuple[SpanRecord, ...]:
    # Machines' clocks are coarse: of two spans that began together, the one that ends later holds the other.
    return tuple(sorted(trace.spans.values(), key=lambda span: (span.start_ns, -span.end_ns, span.span_id)))


def _summary(trace_id: str, trace: _Trace) -> Summary:
    spans = trace.spans.values()
    # Without a root, as when its sender is not one of ours, the first span whose parent is missing stands for it.
    root = min(
        spans,
        key=lambda span: (
            bool(span.parent_span_id),
            span.parent_span_id in trace.spans,
            span.start_ns,
            -span.end_ns,
        ),
    )
    return Summary(
        trace_id,
        root.name,
        min(span.start_ns for span in spans),
        max(span.end_ns for span in spans),
        len(spans),
        any(span.failed for span in spans),
    )
