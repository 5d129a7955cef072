"""Traces, metrics and logs, set up once per process."""

from tiermesh.shared.telemetry._logs import configure_logging, get_logger
from tiermesh.shared.telemetry._metrics import SECONDS, open_meter
from tiermesh.shared.telemetry._traces import (
    Tracing,
    current_trace_id,
    extract_context,
    inject_context,
    open_tracing,
)

__all__ = [
    "SECONDS",
    "Tracing",
    "configure_logging",
    "current_trace_id",
    "extract_context",
    "get_logger",
    "inject_context",
    "open_meter",
    "open_tracing",
]
