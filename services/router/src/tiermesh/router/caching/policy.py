"""Whether a request may read the answer cache, and whether its answer may be kept."""

from __future__ import annotations

from dataclasses import dataclass

from tiermesh.api.router.v1 import router_pb2


@dataclass(frozen=True, slots=True)
class CachePlan:
    """How one request uses the cache."""

    read: bool
    write: bool
    reason: str
    """Why not both: `off`, `refresh`, `disabled`, `sampled`, `tool_history`; empty where both are allowed."""


BOTH = CachePlan(True, True, "")
TOKEN_ONLY = CachePlan(False, True, "")


def plan_cache(request: router_pb2.GenerateRequest, *, cache_control: str, enabled: bool) -> CachePlan:
    """Returns how a request uses the cache.

    Neither read nor written: requests that say so (`CACHE_MODE_OFF`, `cache-control: no-store`);
    those with a temperature above 0 and no seed, whose caller asked for variety; and those whose
    conversation holds tool calls, whose results belong to their moment. Written but not read:
    `CACHE_MODE_REFRESH` and `cache-control: no-cache`. Of two wishes the stricter counts.

    Args:
        request: The request.
        cache_control: Value of the `cache-control` header or metadata; may be empty.
        enabled: Whether the configuration has a cache at all.
    """
    if not enabled:
        return CachePlan(False, False, "disabled")
    wishes = {part.strip().lower() for part in cache_control.split(",")} if cache_control else set()
    if request.cache_mode == router_pb2.CACHE_MODE_OFF or "no-store" in wishes:
        return CachePlan(False, False, "off")
    sampling = request.sampling
    if sampling.HasField("temperature") and sampling.temperature > 0 and not sampling.HasField("seed"):
        return CachePlan(False, False, "sampled")
    if any(message.tool_calls or message.tool_call_id for message in request.messages):
        return CachePlan(False, False, "tool_history")
    if request.cache_mode == router_pb2.CACHE_MODE_REFRESH or "no-cache" in wishes:
        return CachePlan(False, True, "refresh")
    return BOTH
