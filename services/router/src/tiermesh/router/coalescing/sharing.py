"""What a request gets to see of a run that it shares with others."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing
from functools import partial

from tiermesh.api.common.v1 import answer_pb2
from tiermesh.api.router.v1 import router_pb2
from tiermesh.router.call import Call
from tiermesh.router.coalescing.flight import Member
from tiermesh.router.events import Completed, Event
from tiermesh.router.telling import observe
from tiermesh.router.telling.label import shared_label
from tiermesh.shared.budget import Budget
from tiermesh.shared.errors import BudgetExhausted, InferenceTimeout, TiermeshError
from tiermesh.shared.ledger import Parts


async def lead_run(member: Member) -> AsyncGenerator[Event, None]:
    """Yields the events of a run made for this member; another's failure or leaving is nothing to it."""
    try:
        # Nothing in there needs to be closed before it is forgotten.
        async for event, _ in member.entries():
            yield event
    finally:
        member.leave()


async def follow_run(member: Member, *, in_lane: Callable[[Call, str], Call]) -> AsyncGenerator[Event, None]:
    """Yields the events of a run made for another request, as this one's own.

    They come with this request's ids, within its deadline, and cost it no tokens.

    Args:
        member: The request.
        in_lane: Returns a call with its lane's deadline, once the label has told the lane.

    Raises:
        TiermeshError: the run failed, or this request's deadline passed first.
    """
    call, account = member.call, member.call.account
    begin, first_at, outcome, budget = account.now(), None, "cancelled", _budget(call)
    timer = _expire(member, budget)
    try:
        async with aclosing(member.entries()) as entries:
            async for event, author in entries:
                if isinstance(event, answer_pb2.Delta):
                    if first_at is None:
                        first_at = account.now()
                        observe.record_first_text(call.span, first_at)
                    yield event
                elif author is member:
                    yield event
                elif isinstance(event, router_pb2.RouteLabel):
                    timer.cancel()
                    budget = _budget(in_lane(call, event.lane) if event.lane else call)
                    timer = _expire(member, budget)
                    if member.flight.led_from.is_valid:
                        call.span.add_link(member.flight.led_from)
                    label = shared_label(call, event)
                    observe.record_route(call.span, label, tenant=call.caller.tenant)
                    call.trail.label = label
                    yield label
                elif isinstance(event, Completed):
                    outcome = "ok"
                    _enter(call, begin, first_at, budget, outcome)
                    observe.record_usage(call.span, event.usage)
                    end = _as_shared(event, first_at or account.now())
                    call.trail.deltas, call.trail.end = member.flight.deltas, end
                    yield end
                else:
                    call.trail.revision = event
                    yield event
    except TiermeshError as error:
        outcome = error.reason
        raise
    finally:
        timer.cancel()
        member.leave()
        if outcome != "ok":
            _enter(call, begin, first_at, budget, outcome)


def _budget(call: Call) -> Budget:
    """Returns how long a run may be waited for, so that the answer can be ended properly."""
    return call.caller.budget.child(reserve=call.snapshot.config.deadlines.reserve_ms / 1000)


def _expire(member: Member, budget: Budget) -> asyncio.TimerHandle:
    """Makes a member stop when its own time is over; one timer instead of one at every event."""
    return asyncio.get_running_loop().call_later(budget.remaining(), partial(_expired, member))


def _expired(member: Member) -> None:
    if member.has_begun:
        error: TiermeshError = InferenceTimeout(
            "the deadline passed in the middle of an answer that is shared with an identical request; "
            "send a longer deadline"
        )
    else:
        error = BudgetExhausted(
            "the deadline passed while an identical request was being answered; send a longer deadline"
        )
    member.stop(error, after=0)


def _enter(call: Call, begin: float, first_at: float | None, budget: Budget, outcome: str) -> None:
    """Enters the wait into the ledger: for the first text, and for the rest."""
    now = call.account.now()
    first = now if first_at is None else first_at
    parts = Parts(queue=first - begin, decode=now - first)
    call.account.add("coalesced", begin, budget=budget, parts=parts, outcome=outcome)


def _as_shared(end: Completed, ttft_s: float) -> Completed:
    # The one for whom it was made has paid for it.
    return Completed(end.finishes, end.usage, (), True, ttft_s, reasons=end.reasons)
