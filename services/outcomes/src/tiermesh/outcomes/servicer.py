"""OutcomeService: checks what comes in; the log does the rest."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from typing import Any

from google.protobuf.timestamp_pb2 import Timestamp
from tiermesh.api.outcome.v1 import outcome_pb2, outcome_pb2_grpc, record_pb2
from tiermesh.outcomes.drift.monitor import DriftMonitor
from tiermesh.outcomes.log import OutcomeLog
from tiermesh.outcomes.ports import Selection
from tiermesh.shared.budget import current_budget
from tiermesh.shared.errors import InvalidRequest
from tiermesh.shared.outcomes import SCHEMA_VERSION

MAX_RECORDS = 1000
"""Of one call."""
SERVICE = outcome_pb2.DESCRIPTOR.services_by_name["OutcomeService"].full_name


class OutcomeServicer(outcome_pb2_grpc.OutcomeServiceServicer):
    """Serves an `OutcomeLog`."""

    def __init__(self, log: OutcomeLog, drift: DriftMonitor | None) -> None:
        self._outcomes = log
        self._drift = drift

    async def RecordOutcomes(  # noqa: N802 -- gRPC's name
        self,
        request: outcome_pb2.RecordOutcomesRequest,
        context: Any,  # noqa: ARG002 -- gRPC's signature
    ) -> outcome_pb2.RecordOutcomesResponse:
        """Files records."""
        if len(request.outcomes) > MAX_RECORDS:
            raise InvalidRequest(f"outcomes: at most {MAX_RECORDS} at once", field="outcomes")
        for n, outcome in enumerate(request.outcomes):
            _check(outcome, f"outcomes[{n}]")
        return outcome_pb2.RecordOutcomesResponse(new_count=await self._outcomes.record(request.outcomes))

    async def AddFeedback(  # noqa: N802 -- gRPC's name
        self,
        request: outcome_pb2.AddFeedbackRequest,
        context: Any,  # noqa: ARG002 -- gRPC's signature
    ) -> outcome_pb2.AddFeedbackResponse:
        """Files an opinion on a tenant's own request."""
        for field in ("tenant", "request_id"):
            if not getattr(request, field):
                raise InvalidRequest(f"{field}: is required", field=field)
        if not 0 <= request.feedback.score <= 1:
            raise InvalidRequest("feedback.score: must be from 0 to 1", field="feedback.score")
        recorded = await self._outcomes.add_feedback(
            request.tenant, request.request_id, request.feedback, budget=current_budget()
        )
        return outcome_pb2.AddFeedbackResponse(recorded=recorded)

    async def ListOutcomes(  # noqa: N802 -- gRPC's name
        self,
        request: outcome_pb2.ListOutcomesRequest,
        context: Any,  # noqa: ARG002 -- gRPC's signature
    ) -> AsyncGenerator[outcome_pb2.ListOutcomesResponse, None]:
        """Streams records, oldest first."""
        if request.limit < 0:
            raise InvalidRequest("limit: must not be negative", field="limit")
        selection = Selection(
            since_us=request.since.ToMicroseconds() if request.HasField("since") else None,
            until_us=request.until.ToMicroseconds() if request.HasField("until") else None,
            tenant=request.tenant,
            with_feedback=request.with_feedback,
        )
        async for page in self._outcomes.pages(selection, limit=request.limit):
            if not request.with_text:
                for outcome in page:
                    outcome.ClearField("text")
            yield outcome_pb2.ListOutcomesResponse(outcomes=page)

    async def GetLogStatus(  # noqa: N802 -- gRPC's name
        self,
        request: outcome_pb2.GetLogStatusRequest,  # noqa: ARG002 -- gRPC's signature
        context: Any,  # noqa: ARG002 -- gRPC's signature
    ) -> outcome_pb2.GetLogStatusResponse:
        """Tells what the log holds, and how the distribution of requests has moved."""
        found = await self._outcomes.holdings()
        return outcome_pb2.GetLogStatusResponse(
            outcome_count=found.outcome_count,
            feedback_count=found.feedback_count,
            size_bytes=found.size_bytes,
            oldest=_time(found.oldest_us),
            newest=_time(found.newest_us),
            rotated_count=self._outcomes.rotated_count,
            drift=[
                outcome_pb2.Drift(
                    feature=each.feature,
                    psi=each.psi,
                    chance=each.chance,
                    window_count=each.window_count,
                    reference_count=each.reference_count,
                    state=each.state,
                )
                for each in (self._drift.measure() if self._drift is not None else ())
            ],
        )


def _check(outcome: record_pb2.Outcome, field: str) -> None:
    if not outcome.tenant or not outcome.request_id:
        raise InvalidRequest(f"{field}: tenant and request_id are required", field=field)
    if not 1 <= outcome.schema_version <= SCHEMA_VERSION:
        raise InvalidRequest(
            f"{field}: schema_version is {outcome.schema_version}; known are 1 to {SCHEMA_VERSION}", field=field
        )


def _time(microseconds: int | None) -> Timestamp | None:
    if microseconds is None:
        return None
    found = Timestamp()
    found.FromMicroseconds(microseconds)
    return found
