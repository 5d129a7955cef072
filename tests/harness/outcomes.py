"""Records of outcomes, and the log's real server in this process."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import grpc
from tiermesh.api.classifier.v1 import classifier_pb2
from tiermesh.api.common.v1 import chat_pb2
from tiermesh.api.outcome.v1 import outcome_pb2, outcome_pb2_grpc, record_pb2
from tiermesh.outcomes.adapters.sqlite import open_outcomes
from tiermesh.outcomes.app import wire
from tiermesh.shared.config import OutcomesConfig
from tiermesh.shared.rpc import error_from_rpc, open_channel, open_server
from tiermesh.shared.testing import FakeClock, recorded_tracing

NOON = 1_790_000_000
"""Seconds since the Unix epoch, when the first record arrived."""


def make_record(
    number: int = 0,
    *,
    tenant: str = "acme",
    request_id: str | None = None,
    task_type: str = "qa",
    complexity: float = 0.5,
    tier: str = "l1",
    scores: tuple[float, ...] = (),
    question: str | None = None,
    answer: str = "",
    confidence: float | None = None,
    **changes: Any,
) -> record_pb2.Outcome:
    """Returns the record of an answered request; request number N arrived N seconds after noon."""
    found = record_pb2.Outcome(
        schema_version=1,
        request_id=f"r{number}" if request_id is None else request_id,
        tenant=tenant,
        sample_rate=1.0,
        config_version="abc",
        features=record_pb2.RequestFeatures(
            task_type=classifier_pb2.TaskType.Value(f"TASK_TYPE_{task_type.upper()}"),
            complexity=complexity,
            confidence=0.8,
            source="model",
            languages=["en"],
            prompt_token_count=20,
            message_count=1,
        ),
        decision=record_pb2.Decision(
            candidates=[record_pb2.Candidate(tier=tier, probability=1.0)], propensity=1.0, policy="static"
        ),
        result=record_pb2.Result(outcome="ok", tier=tier, model=f"model-of-{tier}", cache="miss"),
        tries=[record_pb2.Try(tier=tier, outcome="answered")],
    )
    found.arrived.FromSeconds(NOON + number)
    found.tries[0].usage.prompt_token_count = 20
    found.tries[0].usage.completion_token_count = 10
    found.result.usage.CopyFrom(found.tries[0].usage)
    found.result.finishes.add(finish_reason=1)
    if confidence is not None:
        found.tries[0].confidence = confidence
    for score in scores:
        found.feedback.add(score=score, source=record_pb2.FEEDBACK_SOURCE_USER)
    if question is not None:
        found.text.messages.add(role=chat_pb2.ROLE_USER, content=question)
        found.text.answers.append(answer)
    found.MergeFrom(record_pb2.Outcome(**changes))
    return found


@dataclass
class RunningLog:
    """A log that serves, and a client of it."""

    stub: outcome_pb2_grpc.OutcomeServiceAsyncStub
    clock: FakeClock

    async def record(self, *outcomes: record_pb2.Outcome) -> int:
        """Files records; returns how many were new."""
        response = await self._call("RecordOutcomes", outcome_pb2.RecordOutcomesRequest(outcomes=outcomes))
        return response.new_count

    async def judge(
        self, request_id: str, score: float, *, tenant: str = "acme", timeout: float = 60.0, **fields: Any
    ) -> bool:
        """Files an opinion; returns whether it was."""
        feedback = record_pb2.Feedback(score=score, **fields)
        request = outcome_pb2.AddFeedbackRequest(tenant=tenant, request_id=request_id, feedback=feedback)
        return (await self._call("AddFeedback", request, timeout=timeout)).recorded

    async def listed(self, **fields: Any) -> list[record_pb2.Outcome]:
        """Returns what is listed."""
        found: list[record_pb2.Outcome] = []
        try:
            async for page in self.stub.ListOutcomes(outcome_pb2.ListOutcomesRequest(**fields), timeout=60):
                found += page.outcomes
        except grpc.aio.AioRpcError as error:
            raise error_from_rpc(error) from None
        return found

    async def status(self) -> outcome_pb2.GetLogStatusResponse:
        """Returns how the log fares."""
        return await self._call("GetLogStatus", outcome_pb2.GetLogStatusRequest())

    async def _call(self, method: str, request: Any, *, timeout: float = 60.0) -> Any:
        try:
            return await getattr(self.stub, method)(request, timeout=timeout)
        except grpc.aio.AioRpcError as error:
            raise error_from_rpc(error) from None


@asynccontextmanager
async def running_log(folder: Path, *, arrival_s: float = 60.0, **settings: Any) -> AsyncIterator[RunningLog]:
    """Serves a log in a folder, whose clock stands at noon; opinions wait for `arrival_s` seconds for their request."""
    clock = FakeClock(wall=NOON)
    store = open_outcomes(folder / "outcomes.db")
    try:
        with recorded_tracing() as tracing:
            async with (
                wire(OutcomesConfig(enabled=True, **settings), store, clock=clock, arrival_s=arrival_s) as service,
                open_server([service], address="127.0.0.1:0", tracing=tracing, default_deadline_s=100) as server,
                open_channel(f"127.0.0.1:{server.port}") as channel,
            ):
                yield RunningLog(outcome_pb2_grpc.OutcomeServiceStub(channel), clock)
    finally:
        store.close()
