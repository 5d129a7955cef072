"""Route labels in words."""

from __future__ import annotations

from tiermesh.api.classifier.v1 import classifier_pb2
from tiermesh.api.router.v1 import router_pb2


def cache_word(route: router_pb2.RouteLabel) -> str:
    """Returns how the cache took part, such as `hit`."""
    return router_pb2.CacheStatus.Name(route.cache_status).removeprefix("CACHE_STATUS_").lower()


_LAYERS: dict[int, str] = {router_pb2.CACHE_LAYER_EXACT: "exact", router_pb2.CACHE_LAYER_SEMANTIC: "semantic"}


def finding_words(found: router_pb2.CacheFinding) -> str:
    """Returns what the cache has for a request and why not more, such as `: refused by polarity`; empty where it said nothing."""
    said = [_LAYERS[found.layer]] if found.layer in _LAYERS else []
    if found.HasField("similarity"):
        said.append(f"nearest question {found.similarity:.2f} alike, {max(0.0, found.threshold):.2f} needed")
    if found.passed_guards:
        said.append(f"passed {', '.join(found.passed_guards)}")
    if found.refused_by:
        said.append(f"refused by {found.refused_by}")
    if found.stale:
        said.append("stale: it is made anew behind the answer")
    return f": {'; '.join(said)}" if said else ""


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
