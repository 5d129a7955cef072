"""RouterService: the typed door."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import Any

from tiermesh.api.common.v1 import answer_pb2, ledger_pb2
from tiermesh.api.router.v1 import router_pb2, router_pb2_grpc
from tiermesh.router.call import Call, make_call, read_caller
from tiermesh.router.events import Completed
from tiermesh.router.flow import RequestFlow
from tiermesh.router.outcomes.feedback import read_feedback
from tiermesh.router.ports import OutcomeLog
from tiermesh.router.settings import Settings
from tiermesh.router.telling.account import ledger_message
from tiermesh.router.telling.label import label_headers
from tiermesh.router.validation import check_request, invalid
from tiermesh.shared.clock import Clock
from tiermesh.shared.errors import FeatureOff, InternalError, TiermeshError
from tiermesh.shared.rpc import failure_of

SERVICE = router_pb2.DESCRIPTOR.services_by_name["RouterService"].full_name
REPORT_S = 10.0
"""Seconds that filing a report may take at most."""


class RouterServicer(router_pb2_grpc.RouterServiceServicer):
    """Serves the typed API."""

    def __init__(self, flow: RequestFlow, settings: Settings, clock: Clock, outcomes: OutcomeLog) -> None:
        self._flow = flow
        self._outcomes = outcomes
        self._settings = settings
        self._clock = clock

    async def Generate(  # noqa: N802 -- gRPC's name
        self, request: router_pb2.GenerateRequest, context: Any
    ) -> AsyncGenerator[router_pb2.GenerateResponse, None]:
        """Streams the label, the pieces, and one terminal event."""
        snapshot = self._settings.current
        caller = read_caller(context, snapshot, self._clock)
        check_request(request)
        call = make_call(caller, request, snapshot, self._clock)
        begun = False
        try:
            async with aclosing(self._flow.answer(call)) as events:
                async for event in events:
                    if isinstance(event, answer_pb2.Delta):
                        yield router_pb2.GenerateResponse(delta=event)
                    elif isinstance(event, Completed):
                        yield router_pb2.GenerateResponse(done=_done(event, call))
                    elif isinstance(event, router_pb2.Revision):
                        yield router_pb2.GenerateResponse(revision=event)
                    else:
                        await context.send_initial_metadata(label_headers(event))
                        begun = True
                        yield router_pb2.GenerateResponse(route=event)
        except TiermeshError as error:
            if begun:
                yield router_pb2.GenerateResponse(failure=failure_of(error, _ledger(call)))
            raise
        except Exception:
            # A defect: the caller learns that the answer is not complete, the log learns the rest.
            if begun:
                failure = failure_of(InternalError("an unexpected error ended the answer"), _ledger(call))
                yield router_pb2.GenerateResponse(failure=failure)
            raise

    async def Explain(self, request: router_pb2.ExplainRequest, context: Any) -> router_pb2.ExplainResponse:  # noqa: N802 -- gRPC's name
        """Says where a request would go, and why."""
        snapshot = self._settings.current
        caller = read_caller(context, snapshot, self._clock)
        if not request.HasField("request"):
            raise invalid("request", 'is required: {"request": {"messages": [...]}}')
        check_request(request.request)
        explanation = await self._flow.explain(make_call(caller, request.request, snapshot, self._clock))
        return router_pb2.ExplainResponse(
            route=explanation.label,
            classification=explanation.classification,
            candidates=explanation.candidates,
            fingerprint=explanation.fingerprint.hex(),
        )

    async def ReportOutcome(  # noqa: N802 -- gRPC's name
        self, request: router_pb2.ReportOutcomeRequest, context: Any
    ) -> router_pb2.ReportOutcomeResponse:
        """Files what a tenant thinks of the answer to one of its own requests."""
        snapshot = self._settings.current
        caller = read_caller(context, snapshot, self._clock)
        feedback = read_feedback(request)
        if not snapshot.config.outcomes.enabled:
            raise FeatureOff("the mesh keeps no log of outcomes; the operator can switch on `outcomes.enabled`")
        budget = caller.budget.child(cap=REPORT_S)
        recorded = await self._outcomes.add_feedback(caller.tenant, request.request_id, feedback, budget=budget)
        return router_pb2.ReportOutcomeResponse(recorded=recorded)


def _ledger(call: Call) -> ledger_pb2.Ledger:
    return ledger_message(call.account.close())


def _done(end: Completed, call: Call) -> router_pb2.Done:
    usage = answer_pb2.Usage() if end.from_cache else end.usage
    done = router_pb2.Done(finishes=end.finishes, usage=usage, attempts=end.attempts, reasons=end.reasons)
    done.time_to_first_token.FromNanoseconds(round(end.ttft_s * 1e9))
    done.ledger.CopyFrom(_ledger(call))
    # The ledger's own total: the two must not differ by the time between two readings of the clock.
    done.total.CopyFrom(done.ledger.total)
    return done
