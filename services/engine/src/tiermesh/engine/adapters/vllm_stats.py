"""What vLLM says of itself. vLLM calls this interface unstable, so nothing else depends on it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from vllm.v1.metrics.loggers import StatLoggerBase


@dataclass(slots=True)
class VllmStats:
    """The last numbers heard."""

    kv_cache_utilization: float = 0.0
    """Share of the KV cache in use, 0 to 1."""
    prefix_queried_tokens: int = 0
    """Prompt tokens since start that were looked for in the prefix cache."""
    prefix_hit_tokens: int = 0
    """Those of them that were found there."""


def keep_stats(stats: VllmStats) -> Callable[[Any, int], StatLoggerBase]:
    """Returns a factory, as vLLM wants one, of a logger that writes into `stats`."""

    class Keeper(StatLoggerBase):  # type: ignore[misc]  # vLLM has no types where it is not installed
        def __init__(self, vllm_config: Any, engine_index: int = 0) -> None:
            pass

        def record(self, scheduler_stats: Any, *_: Any, **__: Any) -> None:
            # A change of vLLM's that takes the number away must not take the engine down.
            stats.kv_cache_utilization = float(getattr(scheduler_stats, "kv_cache_usage", 0.0) or 0.0)
            # What came since the last report, in tokens.
            prefixes = getattr(scheduler_stats, "prefix_cache_stats", None)
            stats.prefix_queried_tokens += int(getattr(prefixes, "queries", 0) or 0)
            stats.prefix_hit_tokens += int(getattr(prefixes, "hits", 0) or 0)

        def log_engine_initialized(self) -> None:
            pass

    return Keeper
