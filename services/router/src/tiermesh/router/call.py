"""One request on its way through the router."""

from __future__ import annotations

import re
import uuid
from dataclasses import dataclass, field, replace
from typing import Any

from opentelemetry.trace import INVALID_SPAN, Span, get_current_span
from tiermesh.api.common.v1 import chat_pb2
from tiermesh.api.router.v1 import router_pb2
from tiermesh.router.outcomes.trail import Trail
from tiermesh.router.settings import Snapshot
from tiermesh.router.telling.account import Account
from tiermesh.shared import headers
from tiermesh.shared.budget import Budget, current_budget
from tiermesh.shared.clock import Clock
from tiermesh.shared.errors import Unauthenticated
from tiermesh.shared.telemetry import current_trace_id

_REQUEST_ID = re.compile(r"[A-Za-z0-9._:/+=-]{1,128}")
_CACHE_CONTROL = "cache-control"


@dataclass(frozen=True, slots=True)
class Caller:
    """Who calls, and what came with the call."""

    tenant: str
    request_id: str
    cache_control: str
    budget: Budget
    arrived: float
    """Seconds on the router's clock."""
    own_deadline: bool = True
    """Whether the caller sent a deadline; `budget` is the default one otherwise."""


@dataclass(frozen=True, slots=True)
class Call:
    """A valid request with everything that one way through the router needs."""

    caller: Caller
    request: router_pb2.GenerateRequest
    snapshot: Snapshot
    trace_id: str
    span: Span
    """The server span. The current span changes while an engine streams; this one does not."""
    account: Account
    """Where its time goes."""
    trail: Trail = field(default_factory=Trail)
    """What has become of it so far."""


def read_caller(context: Any, snapshot: Snapshot, clock: Clock) -> Caller:
    """Returns who calls, from the metadata of a call being served.

    Raises:
        Unauthenticated: no tenant is named; the call did not come through Envoy.
    """
    arrived = clock.monotonic()
    metadata = context.invocation_metadata() or ()
    found = {key: value for key, value in metadata if key in _READ and isinstance(value, str)}
    tenant = found.get(headers.TENANT, "")
    if not tenant:
        raise Unauthenticated(f"the call names no tenant ({headers.TENANT}); send it through the mesh's ingress")
    budget = current_budget()
    has_deadline = context.time_remaining() is not None
    own_deadline = has_deadline and found.get(headers.DEADLINE) != "default"
    if not has_deadline:
        budget = budget.child(cap=snapshot.config.deadlines.default_ms / 1000)
        # The server wrote its own, longer limit there.
        get_current_span().set_attribute("tiermesh.budget.in_ms", round(budget.remaining() * 1000, 1))
    elif headers.DEADLINE in found:
        # Envoy's own timer is earlier than the deadline that it sends, and the last event has to be out before it.
        offset = snapshot.config.deadlines.offset_ms / 1000
        budget = budget.child(reserve=offset + min(offset, max(0.0, budget.remaining() - offset) / 4))
        get_current_span().set_attribute("tiermesh.budget.in_ms", round(budget.remaining() * 1000, 1))
    request_id = found.get(headers.REQUEST_ID, "")
    if not _REQUEST_ID.fullmatch(request_id):
        request_id = str(uuid.uuid4())
    return Caller(tenant, request_id, found.get(_CACHE_CONTROL, ""), budget, arrived, own_deadline)


def make_call(caller: Caller, request: router_pb2.GenerateRequest, snapshot: Snapshot, clock: Clock) -> Call:
    """Returns the call of a valid request; its trace is the current one."""
    account = Account(caller.budget, caller.arrived, clock)
    return Call(caller, request, snapshot, current_trace_id(), get_current_span(), account)


_READ = frozenset({headers.TENANT, headers.REQUEST_ID, headers.DEADLINE, _CACHE_CONTROL})


def in_lane(call: Call, lane: str) -> Call:
    """Returns the call with its lane's deadline, where that counts for callers that sent none."""
    call.account.enter_lane(lane)
    lanes, caller = call.snapshot.config.lanes, call.caller
    if caller.own_deadline or not lanes.default_deadlines:
        return call
    ends = caller.arrived + lanes.table(lane).deadline_ms / 1000
    budget = Budget(min(caller.budget.deadline, ends), caller.budget.clock)
    return replace(call, caller=replace(caller, budget=budget))


def in_background(call: Call, clock: Clock) -> Call:
    """Returns the call as nobody waits for it: with batch priority, a budget of its own, and no span to write on."""
    request = router_pb2.GenerateRequest()
    request.CopyFrom(call.request)
    request.priority, request.progressive = chat_pb2.PRIORITY_BATCH, False
    budget, arrived = Budget.of(call.snapshot.config.deadlines.default_ms / 1000, clock), clock.monotonic()
    caller = replace(call.caller, budget=budget, arrived=arrived, own_deadline=True)
    account = Account(budget, arrived, clock)
    return replace(call, caller=caller, request=request, span=INVALID_SPAN, account=account, trail=Trail())
