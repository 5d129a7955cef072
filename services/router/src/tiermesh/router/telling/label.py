"""The route label: where a request went and why, as a message and as response headers."""

from __future__ import annotations

from collections.abc import Container, Sequence
from urllib.parse import quote

from tiermesh.api.cache.v1 import cache_pb2
from tiermesh.api.router.v1 import router_pb2
from tiermesh.router.call import Call
from tiermesh.router.policy.candidates import Decision
from tiermesh.router.policy.gain import Gain
from tiermesh.router.policy.task_types import task_type_name, task_type_value
from tiermesh.router.policy.verdicts import Verdict
from tiermesh.shared.headers import ROUTE_PREFIX

_CACHE_NAMES: dict[int, str] = {
    router_pb2.CACHE_STATUS_MISS: "miss",
    router_pb2.CACHE_STATUS_HIT: "hit",
    router_pb2.CACHE_STATUS_BYPASS: "bypass",
    router_pb2.CACHE_STATUS_UNAVAILABLE: "unavailable",
    router_pb2.CACHE_STATUS_COALESCED: "coalesced",
}
_LAYERS: dict[int, router_pb2.CacheLayer.ValueType] = {
    cache_pb2.CACHE_RESULT_HIT_EXACT: router_pb2.CACHE_LAYER_EXACT,
    cache_pb2.CACHE_RESULT_HIT_SEMANTIC: router_pb2.CACHE_LAYER_SEMANTIC,
}
_HEADER_SAFE = "/:._-+@ =()"
_HEADER_CHARS = 1024


def decided_label(
    call: Call,
    decision: Decision,
    *,
    tier: str,
    model: str,
    cache_status: router_pb2.CacheStatus.ValueType,
    reasons: Sequence[str],
    open_breakers: Container[str],
    simulated: bool = False,
) -> router_pb2.RouteLabel:
    """Returns the label of a request that policy decided."""
    return router_pb2.RouteLabel(
        request_id=call.caller.request_id,
        trace_id=call.trace_id,
        tier=tier,
        model=model,
        cache_status=cache_status,
        task_type=task_type_value(decision.task_type),
        complexity=decision.complexity,
        classifier_source=decision.source,
        reasons=reasons,
        verdicts=[
            _verdict(v, decision.gains.get(v.tier), breaker_open=v.tier in open_breakers) for v in decision.verdicts
        ],
        simulated=simulated,
        config_version=call.snapshot.version,
        lane=decision.lane,
        cache=call.trail.cache,
    )


def finding_of(found: cache_pb2.LookupResponse) -> router_pb2.CacheFinding | None:
    """Returns what a lookup says of the answer cache, without the answer; None for a miss of which there is nothing to say."""
    if found.result not in _LAYERS and not found.refused_by and not found.similarity:
        return None
    finding = router_pb2.CacheFinding(
        layer=_LAYERS.get(found.result, router_pb2.CACHE_LAYER_UNSPECIFIED),
        passed_guards=found.passed_guards,
        refused_by=found.refused_by,
        stale=found.stale,
    )
    if found.similarity:
        finding.similarity, finding.threshold = found.similarity, found.threshold
    return finding


def _verdict(verdict: Verdict, gain: Gain | None, *, breaker_open: bool) -> router_pb2.TierVerdict:
    found = router_pb2.TierVerdict(
        tier=verdict.tier,
        eligible=verdict.eligible,
        reason=verdict.reason,
        detail=verdict.detail,
        breaker_open=breaker_open,
    )
    if gain is not None:
        found.right_probability, found.expected_cost, found.worth = gain.right, gain.cost, gain.worth
    return found


def cached_label(call: Call, found: cache_pb2.LookupResponse) -> router_pb2.RouteLabel:
    """Returns the label of a request answered from the cache; no tier was considered."""
    answer = found.answer
    layer = "cache:semantic" if found.result == cache_pb2.CACHE_RESULT_HIT_SEMANTIC else "cache:exact"
    return router_pb2.RouteLabel(
        request_id=call.caller.request_id,
        trace_id=call.trace_id,
        tier=answer.tier,
        model=answer.model,
        cache_status=router_pb2.CACHE_STATUS_HIT,
        task_type=task_type_value(answer.task_type),
        complexity=answer.complexity,
        reasons=(layer, "cache:stale") if found.stale else (layer,),
        simulated=answer.simulated,
        config_version=call.snapshot.version,
        cache=finding_of(found),
    )


def shared_label(call: Call, leading: router_pb2.RouteLabel) -> router_pb2.RouteLabel:
    """Returns the label of a request that shares the run of an identical one.

    Args:
        call: The request.
        leading: The label of the one whose run it is.
    """
    label = router_pb2.RouteLabel()
    label.CopyFrom(leading)
    label.request_id, label.trace_id = call.caller.request_id, call.trace_id
    label.cache_status = router_pb2.CACHE_STATUS_COALESCED
    label.reasons[:] = ["cache:coalesced", *leading.reasons]
    return label


def cache_status_name(status: int) -> str:
    """Returns the name of a cache status, such as `hit`."""
    return _CACHE_NAMES.get(status, "")


def label_headers(label: router_pb2.RouteLabel) -> tuple[tuple[str, str], ...]:
    """Returns the label as response headers: ASCII, without empty ones."""
    found = [
        ("request-id", label.request_id),
        ("trace-id", label.trace_id),
        ("tier", label.tier),
        ("model", _ascii(label.model)),
        ("cache", cache_status_name(label.cache_status)),
        ("task-type", task_type_name(label.task_type)),
        ("reasons", ",".join(_ascii(reason) for reason in label.reasons)[:_HEADER_CHARS]),
        ("complexity", f"{label.complexity:.2f}"),
        ("simulated", "true" if label.simulated else ""),
        ("config-version", label.config_version),
    ]
    return tuple((ROUTE_PREFIX + name, value) for name, value in found if value)


def _ascii(text: str) -> str:
    """Returns a text as header values may be; other characters, and commas, are percent-encoded."""
    if text.isascii() and text.isprintable() and "," not in text:
        return text
    return quote(text, safe=_HEADER_SAFE)
