"""Route labels in words."""

from __future__ import annotations

from tiermesh.api.classifier.v1 import classifier_pb2
from tiermesh.api.router.v1 import router_pb2


def cache_word(route: router_pb2.RouteLabel) -> str:
    """Returns how the cache took part, such as `hit`."""
    return router_pb2.CacheStatus.Name(route.cache_status).removeprefix("CACHE_STATUS_").lower()


def task_word(route: router_pb2.RouteLabel) -> str:
    """Returns the kind of work, such as `faq`."""
    return classifier_pb2.TaskType.Name(route.task_type).removeprefix("TASK_TYPE_").lower()


def describe(route: router_pb2.RouteLabel) -> str:
    """Returns one line about where an answer came from."""
    parts = [f"tier {route.tier}", route.model, f"cache {cache_word(route)}"]
    if route.simulated:
        parts.append("simulated text")
    if route.reasons:
        parts.append(f"because {', '.join(route.reasons)}")
    return " · ".join(part for part in parts if part)
