"""Which lane a request travels in."""

from __future__ import annotations

from tiermesh.api.common.v1 import chat_pb2
from tiermesh.shared.config import LanesConfig

SIMPLE, COMPLEX, BATCH = "simple", "complex", "batch"
INTERACTIVE = "interactive"


def priority_name(priority: int) -> str:
    """Returns `batch` or, for everything else, `interactive`."""
    return BATCH if priority == chat_pb2.PRIORITY_BATCH else INTERACTIVE


def lane_of(priority: int, complexity: float, lanes: LanesConfig) -> str:
    """Returns the lane's name: batch work has its own, the rest is told apart by complexity."""
    if priority == chat_pb2.PRIORITY_BATCH:
        return BATCH
    return SIMPLE if complexity <= lanes.simple_max_complexity else COMPLEX
