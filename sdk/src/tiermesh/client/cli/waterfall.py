"""A trace as a waterfall of text: what took how long, and inside what."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from rich.cells import cell_len, set_cell_size
from tiermesh.api.trace.v1 import trace_pb2

_EIGHTHS = " ▏▎▍▌▋▊▉"
_NARROWEST_BAR = 16
_WIDEST_NAME = 48
_PREFIX = "tiermesh."
_KEYS = (
    *(
        "tier",
        "cache",
        "task_type",
        "complexity",
        "reasons",
        "attempts",
        "later_reasons",
        "judged.confidence",
        "breakers_open",
        "model",
        "simulated",
        "prompt_tokens",
    ),
    *("completion_tokens", "queue_ms", "ttft_ms", "budget.in_ms"),
)
"""Attributes of ours that say where the time and the tokens went, in the order in which they are shown."""
_FOREIGN = {"error.type": "error", "http.status_code": "http", "response_flags": "flags"}
"""Attributes of others that are worth their place, and what they are called here."""


@dataclass(frozen=True, slots=True)
class Line:
    """One span, ready to be drawn."""

    depth: int
    name: str
    service: str
    start_ms: float
    """Since the trace began."""
    duration_ms: float
    failed: bool
    notes: tuple[str, ...]
    """Key attributes, as `key=value`."""


def lay_out(spans: Sequence[trace_pb2.Span], *, everything: bool = False) -> list[Line]:
    """Orders spans as a tree, children below their parent by start; orphans count as roots.

    Args:
        spans: The spans of one trace, in any order.
        everything: Keep every attribute instead of the key ones.
    """
    if not spans:
        return []
    known = {span.span_id for span in spans}
    children: dict[str, list[trace_pb2.Span]] = {}
    for span in sorted(spans, key=_start):
        parent = span.parent_span_id if span.parent_span_id in known else ""
        children.setdefault(parent, []).append(span)
    origin = min(_start(span) for span in spans)
    lines: list[Line] = []
    # Deepest last, without recursion: a trace comes from outside and may be of any depth.
    waiting = [(0, span) for span in reversed(children.get("", []))]
    seen: set[str] = set()
    while waiting:
        depth, span = waiting.pop()
        if span.span_id in seen:
            continue
        seen.add(span.span_id)
        lines.append(
            Line(
                depth=depth,
                name=span.name,
                service=span.service.removeprefix("tiermesh-"),
                start_ms=(_start(span) - origin) / 1e6,
                duration_ms=span.duration.ToNanoseconds() / 1e6,
                failed=span.failed,
                notes=tuple(_notes(span, everything)),
            )
        )
        waiting += [(depth + 1, child) for child in reversed(children.get(span.span_id, []))]
    return lines


def draw(lines: Sequence[Line], *, width: int) -> list[str]:
    """Returns the waterfall, one text per span.

    Args:
        lines: From `lay_out`.
        width: Columns of the terminal.
    """
    if not lines:
        return []
    total = max(line.start_ms + line.duration_ms for line in lines) or 1.0
    names = [f"{'  ' * line.depth}{'✗ ' if line.failed else ''}{line.name}" for line in lines]
    name_width = min(_WIDEST_NAME, max(cell_len(name) for name in names))
    service_width = max(cell_len(line.service) for line in lines)
    bar_width = max(_NARROWEST_BAR, min(60, (width - name_width - service_width - 14) // 2))
    drawn = []
    for name, line in zip(names, lines, strict=True):
        text = (
            f"{set_cell_size(name, name_width)}  {set_cell_size(line.service, service_width)}  "
            f"{_bar(line, total, bar_width)} {line.duration_ms:>9.1f} ms"
        )
        drawn.append(f"{text}  {' '.join(line.notes)}".rstrip())
    return drawn


def _bar(line: Line, total: float, width: int) -> str:
    first = min(width - 1, int(line.start_ms / total * width))
    eighths = max(1, round(line.duration_ms / total * width * 8))
    full, part = divmod(eighths, 8)
    body = "█" * full + (_EIGHTHS[part] if part else "")
    return f"{' ' * first}{body[: width - first]}".ljust(width)


def _start(span: trace_pb2.Span) -> int:
    return span.start_time.ToNanoseconds()


def _notes(span: trace_pb2.Span, everything: bool) -> Iterable[str]:
    attributes = dict(span.attributes)
    if everything:
        yield from (f"{key}={value}" for key, value in sorted(attributes.items()))
        return
    for key in _KEYS:
        if value := attributes.get(_PREFIX + key):
            yield f"{key}={value}"
    for key, shown in _FOREIGN.items():
        value = attributes.get(key, "")
        # Envoy writes a dash for nothing.
        if value and value != "-":
            yield f"{shown}={value}"
