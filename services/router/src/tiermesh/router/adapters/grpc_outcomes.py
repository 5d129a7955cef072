"""The log of outcomes over gRPC."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Sequence
from contextlib import aclosing

import grpc
from opentelemetry.trace import NonRecordingSpan, SpanContext, TraceFlags, Tracer, use_span
from tiermesh.api.outcome.v1 import outcome_pb2, outcome_pb2_grpc, record_pb2
from tiermesh.shared.budget import Budget
from tiermesh.shared.rpc import call_stream, call_unary


class GrpcOutcomeLog:
    """An `OutcomeLog`.

    Args:
        connect: Opens the channel on first use: a configuration may switch the log on later.
        tracer: Records client spans.
    """

    def __init__(self, connect: Callable[[], grpc.aio.Channel], tracer: Tracer) -> None:
        self._connect = connect
        self._tracer = tracer
        self._known: outcome_pb2_grpc.OutcomeServiceAsyncStub | None = None

    async def record(self, outcomes: Sequence[record_pb2.Outcome], *, budget: Budget) -> None:
        """Files records. They belong to no single request, so the call is part of no trace."""
        with use_span(_nowhere(), record_exception=False, set_status_on_exception=False):
            await call_unary(
                self._stub().RecordOutcomes,
                outcome_pb2.RecordOutcomesRequest(outcomes=outcomes),
                name="OutcomeService/RecordOutcomes",
                budget=budget,
                tracer=self._tracer,
            )

    async def add_feedback(
        self, tenant: str, request_id: str, feedback: record_pb2.Feedback, *, budget: Budget
    ) -> bool:
        """Files an opinion; returns whether the request is among those sampled."""
        response = await call_unary(
            self._stub().AddFeedback,
            outcome_pb2.AddFeedbackRequest(tenant=tenant, request_id=request_id, feedback=feedback),
            name="OutcomeService/AddFeedback",
            budget=budget,
            tracer=self._tracer,
        )
        return response.recorded

    async def judged(self, *, limit: int, since_s: float, budget: Budget) -> Sequence[record_pb2.Outcome]:
        """Returns the newest records with feedback. They belong to no single request, so the call is part of no trace."""
        request = outcome_pb2.ListOutcomesRequest(with_feedback=True, limit=limit)
        if since_s > 0:
            request.since.FromNanoseconds(round(since_s * 1e6) * 1000)
        found: list[record_pb2.Outcome] = []
        with use_span(_nowhere(), record_exception=False, set_status_on_exception=False):
            call = call_stream(
                self._stub().ListOutcomes,
                request,
                name="OutcomeService/ListOutcomes",
                budget=budget,
                tracer=self._tracer,
            )
            async with aclosing(call) as responses:
                async for response in responses:
                    found.extend(response.outcomes)
        return found

    def _stub(self) -> outcome_pb2_grpc.OutcomeServiceAsyncStub:
        if self._known is None:
            self._known = outcome_pb2_grpc.OutcomeServiceStub(self._connect())
        return self._known


def _nowhere() -> NonRecordingSpan:
    return NonRecordingSpan(
        SpanContext(secrets.randbits(128), secrets.randbits(64), is_remote=False, trace_flags=TraceFlags(0))
    )
