"""A router that does what a test tells it, for the tests of its callers."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Sequence
from typing import Any

from tiermesh.api.common.v1 import answer_pb2
from tiermesh.api.router.v1 import router_pb2, router_pb2_grpc
from tiermesh.shared.errors import TiermeshError
from tiermesh.shared.rpc import Service

RouterStep = router_pb2.GenerateResponse | TiermeshError | asyncio.Event
"""What a scripted router does next: send an event, fail, or wait."""


class ScriptedRouter(router_pb2_grpc.RouterServiceServicer):
    """Takes one script a call, the last one again and again.

    Args:
        scripts: Steps of each call of Generate.
    """

    def __init__(self, *scripts: Sequence[RouterStep]) -> None:
        self.scripts = list(scripts)
        self.requests: list[router_pb2.GenerateRequest] = []
        self.metadata: list[dict[str, str | bytes]] = []
        """Of each call of Generate and Explain."""
        self.remaining: list[float | None] = []
        """Seconds of each call's deadline that were left on arrival."""
        self.explain_errors: list[TiermeshError] = []
        """What the next calls of Explain fail with."""
        self.reports: list[router_pb2.ReportOutcomeRequest] = []
        self.report_errors: list[TiermeshError] = []
        """What the next calls of ReportOutcome fail with."""
        self.sampled = True
        """Whether reports are said to have been filed."""
        self.entered = asyncio.Event()
        """Set once a call of Generate has arrived."""
        self.abandoned = asyncio.Event()
        """Set once a call was cancelled, by its caller or by its deadline."""

    async def Generate(  # noqa: N802 -- gRPC's name
        self, request: router_pb2.GenerateRequest, context: Any
    ) -> AsyncGenerator[router_pb2.GenerateResponse, None]:
        """Takes the steps of the next script."""
        script = self.scripts[min(len(self.requests), len(self.scripts) - 1)]
        self._note(context)
        self.requests.append(request)
        self.entered.set()
        try:
            for step in script:
                if isinstance(step, asyncio.Event):
                    await step.wait()
                elif isinstance(step, TiermeshError):
                    raise step
                else:
                    yield step
        except (asyncio.CancelledError, GeneratorExit):
            # The one strikes where it waits, the other where it has just sent something.
            self.abandoned.set()
            raise

    async def Explain(self, request: router_pb2.ExplainRequest, context: Any) -> router_pb2.ExplainResponse:  # noqa: ARG002, N802 -- gRPC's signature
        """Names one candidate."""
        self._note(context)
        if self.explain_errors:
            raise self.explain_errors.pop(0)
        return router_pb2.ExplainResponse(candidates=["l1"])

    async def ReportOutcome(  # noqa: N802 -- gRPC's name
        self, request: router_pb2.ReportOutcomeRequest, context: Any
    ) -> router_pb2.ReportOutcomeResponse:
        """Keeps the report."""
        self._note(context)
        self.reports.append(request)
        if self.report_errors:
            raise self.report_errors.pop(0)
        return router_pb2.ReportOutcomeResponse(recorded=self.sampled)

    def _note(self, context: Any) -> None:
        self.metadata.append(dict(context.invocation_metadata()))
        self.remaining.append(context.time_remaining())

    def service(self) -> Service:
        """Returns how to host it."""
        name = router_pb2.DESCRIPTOR.services_by_name["RouterService"].full_name
        return Service(name, lambda server: router_pb2_grpc.add_RouterServiceServicer_to_server(self, server))


def router_answer(*pieces: str, tier: str = "l1") -> list[RouterStep]:
    """Returns the steps of a complete answer of one choice: label, pieces, end."""
    usage = answer_pb2.Usage(prompt_token_count=7, completion_token_count=len(pieces))
    finish = answer_pb2.ChoiceFinish(finish_reason=answer_pb2.FINISH_REASON_STOP)
    return [
        router_pb2.GenerateResponse(route=router_pb2.RouteLabel(request_id="r-1", tier=tier, model="scripted")),
        *(router_pb2.GenerateResponse(delta=answer_pb2.Delta(text=piece)) for piece in pieces),
        router_pb2.GenerateResponse(done=router_pb2.Done(finishes=[finish], usage=usage)),
    ]
