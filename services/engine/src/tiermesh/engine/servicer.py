"""EngineService: from the wire to the engine and back."""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import aclosing
from typing import Any

from opentelemetry.metrics import Meter
from opentelemetry.trace import Span, get_current_span
from tiermesh.api.engine.v1 import engine_pb2, engine_pb2_grpc
from tiermesh.engine.engine import Began, Ended, Engine
from tiermesh.engine.joining import joined
from tiermesh.engine.metrics import EngineMetrics
from tiermesh.engine.orca import LoadReporter
from tiermesh.engine.ports import Piece
from tiermesh.engine.translate import from_began, from_ended, from_error, from_load, from_piece, to_request
from tiermesh.shared.budget import current_budget
from tiermesh.shared.errors import TiermeshError
from tiermesh.shared.rpc import Service

_DEFAULT_INTERVAL_S = 0.1


class EngineServicer(engine_pb2_grpc.EngineServiceServicer):
    """Serves one engine.

    Args:
        engine: Answers the prompts.
        model: Identifier that callers see.
        simulated: Whether the backend makes its text up.
        meter: Makes instruments; without one nothing is counted.
    """

    def __init__(self, engine: Engine, *, model: str, simulated: bool, meter: Meter | None = None) -> None:
        self._engine = engine
        self._model = model
        self._simulated = simulated
        self._metrics = EngineMetrics(meter, tier=engine.tier.name, model=model, load=engine.load)
        # Replicas cannot be told apart by what they are started with: on Kubernetes that is the same for all.
        self._instance = f"{engine.tier.name}-{secrets.token_hex(6)}"
        self._ending = asyncio.Event()

    async def Generate(  # noqa: N802 -- gRPC's name
        self,
        request: engine_pb2.GenerateRequest,
        context: Any,  # noqa: ARG002 -- gRPC's signature
    ) -> AsyncIterator[engine_pb2.GenerateResponse]:
        """Streams an answer."""
        events = self._events(request)
        if not request.joins_events:
            async with aclosing(events):
                async for event in events:
                    yield event
            return
        async with aclosing(joined(events)) as groups:
            async for first, *following in groups:
                first.following.extend(following)
                yield first

    async def _events(self, request: engine_pb2.GenerateRequest) -> AsyncGenerator[engine_pb2.GenerateResponse, None]:
        tier = self._engine.tier
        span = get_current_span()
        span.set_attributes({"tiermesh.tier": tier.name, "tiermesh.model": self._model})
        begun = False
        generated = 0
        wanted = to_request(request, answer_tokens=tier.answer_tokens)
        try:
            async with aclosing(self._engine.answer(wanted, current_budget())) as events:
                async for event in events:
                    if isinstance(event, Piece):
                        generated += event.token_count
                        message = from_piece(event)
                        if message is not None:
                            yield message
                    elif isinstance(event, Began):
                        begun = True
                        _describe_start(span, event)
                        yield self._with_load(from_began(event, model=self._model))
                    else:
                        _describe_end(span, event)
                        self._metrics.answered(event, wanted.lane)
                        yield self._with_load(from_ended(event))
        except TiermeshError as error:
            self._metrics.failed(error.reason)
            if begun:
                yield from_error(error)
            raise
        finally:
            span.set_attribute("tiermesh.tokens.completion", generated)

    async def WatchLoad(  # noqa: N802 -- gRPC's name
        self,
        request: engine_pb2.WatchLoadRequest,
        context: Any,  # noqa: ARG002 -- gRPC's signature
    ) -> AsyncIterator[engine_pb2.WatchLoadResponse]:
        """Streams load reports until the caller goes."""
        interval = request.min_interval.ToTimedelta().total_seconds() if request.HasField("min_interval") else None
        pause = _DEFAULT_INTERVAL_S if interval is None else max(0.0, interval)
        # Ends with the call's deadline or with a drain, which this stream must not hold up.
        ending = asyncio.ensure_future(self._ending.wait())
        try:
            while not current_budget().exhausted and not ending.done():
                changed = asyncio.ensure_future(self._engine.changes.next().wait())
                yield self._load()
                await asyncio.wait({ending}, timeout=pause)
                left = current_budget().remaining()
                await asyncio.wait({ending, changed}, timeout=left, return_when=asyncio.FIRST_COMPLETED)
                changed.cancel()
        finally:
            ending.cancel()

    def _load(self) -> engine_pb2.WatchLoadResponse:
        return from_load(self._engine.load(), instance=self._instance)

    def _with_load(self, message: engine_pb2.GenerateResponse) -> engine_pb2.GenerateResponse:
        message.load.CopyFrom(self._load())
        return message

    def end_watches(self) -> None:
        """Ends every `WatchLoad`; the server is about to drain."""
        self._ending.set()

    async def GetModel(self, request: engine_pb2.GetModelRequest, context: Any) -> engine_pb2.GetModelResponse:  # noqa: ARG002, N802 -- gRPC's signature
        """Describes what is served."""
        tier = self._engine.tier
        return engine_pb2.GetModelResponse(
            tier=tier.name,
            model=self._model,
            backend=tier.backend,
            context_token_limit=tier.context_tokens,
            answer_token_limit=tier.answer_tokens,
            simulated=self._simulated,
        )

    def service(self) -> Service:
        """Returns how to host this servicer."""
        name = engine_pb2.DESCRIPTOR.services_by_name["EngineService"].full_name
        return Service(name, lambda server: engine_pb2_grpc.add_EngineServiceServicer_to_server(self, server))

    def load_reports(self) -> Service:
        """Returns how to host the load reports that Envoy reads."""
        return LoadReporter(self._engine.load, self._ending).service()


def _describe_start(span: Span, event: Began) -> None:
    span.set_attributes(
        {
            "tiermesh.tokens.prompt": event.prompt_tokens,
            "tiermesh.engine.queue_ms": _ms(event.queue_s),
            "tiermesh.simulated": event.simulated,
            "tiermesh.engine.hopeless": event.hopeless,
        }
    )
    if event.predicted_s is not None:
        span.set_attribute("tiermesh.engine.predicted_ms", _ms(event.predicted_s))


def _describe_end(span: Span, event: Ended) -> None:
    span.set_attributes(
        {
            "tiermesh.engine.tokenize_ms": _ms(event.tokenize_s),
            "tiermesh.engine.prefill_ms": _ms(event.prefill_s),
            "tiermesh.engine.decode_ms": _ms(event.decode_s),
            "tiermesh.engine.detokenize_ms": _ms(event.detokenize_s),
            "tiermesh.ttft_ms": _ms(event.tokenize_s + event.queue_s + event.prefill_s),
            "tiermesh.tokens.cached_prompt": event.cached_prompt_tokens,
            "tiermesh.finish_reason": ",".join(finish.name.lower() for _, finish in event.finishes),
        }
    )
    if event.rule:
        span.set_attribute("tiermesh.rule", event.rule)


def _ms(seconds: float) -> float:
    return round(seconds * 1000, 2)
