"""What this router has to say about a run to the routers beside it."""

from __future__ import annotations

from dataclasses import dataclass

from opentelemetry.trace import SpanContext, TraceFlags


@dataclass(slots=True)
class Claim:
    """A wish to run a request for all routers; filled in when it has been granted."""

    router: str
    """This router, by the identifier that it chose when it started."""
    trace_parent: str
    """The request's span, for others to link to."""
    token: str = ""
    """Names the run once the claim counts."""
    is_wanted: bool = False
    """Whether the run's events go to other routers."""
    ends_with_store: bool = False
    """Whether the claim ends when the answer is stored, in the same call."""


def trace_parent_of(context: SpanContext) -> str:
    """Returns a span as a W3C traceparent; empty where it is none."""
    if not context.is_valid:
        return ""
    return f"00-{context.trace_id:032x}-{context.span_id:016x}-{context.trace_flags:02x}"


def span_of(trace_parent: str) -> SpanContext | None:
    """Returns the span of a W3C traceparent; None where it is none."""
    parts = trace_parent.split("-")
    try:
        trace_id, span_id, flags = (int(part, 16) for part in parts[1:4])
        context = SpanContext(trace_id, span_id, is_remote=True, trace_flags=TraceFlags(flags))
    except (ValueError, TypeError):
        return None
    return context if context.is_valid else None
