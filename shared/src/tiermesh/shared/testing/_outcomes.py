"""A log of outcomes that does what a test tells it, for the router's tests."""

from __future__ import annotations

import asyncio
from typing import Any

from tiermesh.api.outcome.v1 import outcome_pb2, outcome_pb2_grpc, record_pb2
from tiermesh.shared.errors import TiermeshError
from tiermesh.shared.rpc import Service


class FakeOutcomes(outcome_pb2_grpc.OutcomeServiceServicer):
    """Keeps records and opinions in lists."""

    def __init__(self) -> None:
        self.error: TiermeshError | None = None
        """Raised by every call."""
        self.gate: asyncio.Event | None = None
        """Held back by it, calls go on only once it is set."""
        self.entered = asyncio.Event()
        """Set once a call has arrived."""
        self.records: list[record_pb2.Outcome] = []
        self.batches: list[int] = []
        """Records of each call, in order."""
        self.opinions: list[outcome_pb2.AddFeedbackRequest] = []
        self.sampled = True
        """Whether opinions are said to have been filed."""
        self._arrived = asyncio.Condition()

    async def RecordOutcomes(  # noqa: N802 -- gRPC's name
        self,
        request: outcome_pb2.RecordOutcomesRequest,
        context: Any,  # noqa: ARG002 -- gRPC's signature
    ) -> outcome_pb2.RecordOutcomesResponse:
        """Keeps records."""
        await self._obey()
        async with self._arrived:
            self.records += request.outcomes
            self.batches.append(len(request.outcomes))
            self._arrived.notify_all()
        return outcome_pb2.RecordOutcomesResponse(new_count=len(request.outcomes))

    async def AddFeedback(  # noqa: N802 -- gRPC's name
        self,
        request: outcome_pb2.AddFeedbackRequest,
        context: Any,  # noqa: ARG002 -- gRPC's signature
    ) -> outcome_pb2.AddFeedbackResponse:
        """Keeps an opinion."""
        await self._obey()
        self.opinions.append(request)
        return outcome_pb2.AddFeedbackResponse(recorded=self.sampled)

    async def ListOutcomes(  # noqa: N802 -- gRPC's name
        self,
        request: outcome_pb2.ListOutcomesRequest,  # noqa: ARG002 -- gRPC's signature
        context: Any,  # noqa: ARG002 -- gRPC's signature
    ) -> Any:
        """Lists everything."""
        yield outcome_pb2.ListOutcomesResponse(outcomes=self.records)

    async def GetLogStatus(  # noqa: N802 -- gRPC's name
        self,
        request: outcome_pb2.GetLogStatusRequest,  # noqa: ARG002 -- gRPC's signature
        context: Any,  # noqa: ARG002 -- gRPC's signature
    ) -> outcome_pb2.GetLogStatusResponse:
        """Counts."""
        return outcome_pb2.GetLogStatusResponse(outcome_count=len(self.records), feedback_count=len(self.opinions))

    async def wait_for(self, count: int, *, within_s: float = 20.0) -> list[record_pb2.Outcome]:
        """Returns the records once there are `count`.

        Raises:
            TimeoutError: there are fewer after `within_s` seconds.
        """
        async with asyncio.timeout(within_s), self._arrived:
            await self._arrived.wait_for(lambda: len(self.records) >= count)
        return self.records

    async def _obey(self) -> None:
        self.entered.set()
        if self.gate is not None:
            await self.gate.wait()
        if self.error is not None:
            raise self.error

    def service(self) -> Service:
        """Returns how to host it."""
        name = outcome_pb2.DESCRIPTOR.services_by_name["OutcomeService"].full_name
        return Service(name, lambda server: outcome_pb2_grpc.add_OutcomeServiceServicer_to_server(self, server))
