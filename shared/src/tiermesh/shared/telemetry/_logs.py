"""Structured logs: one JSON object a line on standard error, with the trace id of the call."""

from __future__ import annotations

import logging
import sys
from collections.abc import MutableMapping
from typing import Any, cast

import structlog
from opentelemetry import trace
from structlog.tracebacks import ExceptionDictTransformer


def _add_trace_id(_logger: Any, _method: str, event: MutableMapping[str, Any]) -> MutableMapping[str, Any]:
    context = trace.get_current_span().get_span_context()
    if context.is_valid:
        event["trace_id"] = format(context.trace_id, "032x")
    return event


def configure_logging(service: str, *, level: str = "info") -> None:
    """Sends the logs of this process, and of its libraries, to standard error as JSON lines.

    Args:
        service: Name of the service and replica, written as `service`.
        level: `debug`, `info`, `warning` or `error`.
    """
    number = logging.getLevelNamesMapping()[level.upper()]
    shared: list[Any] = [
        structlog.contextvars.merge_contextvars,
        structlog.processors.add_log_level,
        structlog.processors.TimeStamper(fmt="iso", utc=True),
        _add_trace_id,
        # Without local variables: those hold prompts, answers and keys.
        structlog.processors.ExceptionRenderer(ExceptionDictTransformer(show_locals=False)),
    ]
    structlog.configure(
        processors=[*shared, structlog.processors.JSONRenderer()],
        wrapper_class=structlog.make_filtering_bound_logger(number),
        logger_factory=structlog.PrintLoggerFactory(sys.stderr),
        cache_logger_on_first_use=True,
    )
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(
        structlog.stdlib.ProcessorFormatter(
            foreign_pre_chain=shared,
            processors=[
                structlog.stdlib.ProcessorFormatter.remove_processors_meta,
                structlog.processors.JSONRenderer(),
            ],
        )
    )
    logging.basicConfig(level=max(number, logging.WARNING), handlers=[handler], force=True)
    # The exporter's failures are no news to a mesh without a collector; see Tracing.
    logging.getLogger("opentelemetry").setLevel(logging.CRITICAL)
    structlog.contextvars.clear_contextvars()
    structlog.contextvars.bind_contextvars(service=service)


def get_logger(name: str) -> structlog.typing.FilteringBoundLogger:
    """Returns the logger of a module. Never pass it prompts, answers or keys."""
    return cast("structlog.typing.FilteringBoundLogger", structlog.get_logger(module=name))
