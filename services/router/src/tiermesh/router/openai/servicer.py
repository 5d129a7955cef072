"""OpenAIService: HTTP bodies in and out, around the same flow as the typed API."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import Any

from google.api import httpbody_pb2
from tiermesh.api.common.v1 import answer_pb2
from tiermesh.api.openai.v1 import openai_pb2, openai_pb2_grpc
from tiermesh.api.router.v1 import router_pb2
from tiermesh.router.call import Call, make_call, read_caller
from tiermesh.router.events import Completed
from tiermesh.router.flow import RequestFlow
from tiermesh.router.openai.answer import Chunks, Document, failure_event, identity_of
from tiermesh.router.openai.model_list import get_model, list_models
from tiermesh.router.openai.request import ChatRequest, read_chat_request
from tiermesh.router.settings import Settings
from tiermesh.router.telling.label import label_headers
from tiermesh.shared.clock import Clock
from tiermesh.shared.errors import InternalError, TiermeshError

_JSON = "application/json"
_EVENTS = "text/event-stream; charset=utf-8"


class OpenAIServicer(openai_pb2_grpc.OpenAIServiceServicer):
    """Serves OpenAI's chat-completions surface."""

    def __init__(self, flow: RequestFlow, settings: Settings, clock: Clock) -> None:
        self._flow = flow
        self._settings = settings
        self._clock = clock

    async def CreateChatCompletion(  # noqa: N802 -- gRPC's name
        self, request: httpbody_pb2.HttpBody, context: Any
    ) -> AsyncGenerator[httpbody_pb2.HttpBody, None]:
        """Answers with one JSON document, or with server-sent events."""
        snapshot = self._settings.current
        caller = read_caller(context, snapshot, self._clock)
        chat = read_chat_request(request.data, max_bytes=snapshot.config.limits.max_request_bytes)
        call = make_call(caller, chat.request, snapshot, self._clock)
        if not chat.stream:
            yield await self._document(call, context)
            return
        async with aclosing(self._events(chat, call, context)) as bodies:
            async for body in bodies:
                yield body

    async def ListModels(self, _request: openai_pb2.ListModelsRequest, context: Any) -> httpbody_pb2.HttpBody:  # noqa: N802 -- gRPC's name
        """Lists what a request may name as its model."""
        read_caller(context, self._settings.current, self._clock)
        return httpbody_pb2.HttpBody(content_type=_JSON, data=list_models(self._settings.current))

    async def GetModel(self, request: openai_pb2.GetModelRequest, context: Any) -> httpbody_pb2.HttpBody:  # noqa: N802 -- gRPC's name
        """Describes one of them."""
        read_caller(context, self._settings.current, self._clock)
        return httpbody_pb2.HttpBody(content_type=_JSON, data=get_model(request.model, self._settings.current))

    async def _document(self, call: Call, context: Any) -> httpbody_pb2.HttpBody:
        sampling = call.request.sampling
        document = Document(max(1, sampling.choice_count), sampling.logprobs)
        label: router_pb2.RouteLabel | None = None
        end: Completed | None = None
        async with aclosing(self._flow.answer(call)) as events:
            async for event in events:
                if isinstance(event, answer_pb2.Delta):
                    document.add(event)
                elif isinstance(event, Completed):
                    end = event
                elif isinstance(event, router_pb2.RouteLabel):
                    label = event
        if label is None or end is None:
            raise InternalError("an answer ended without its label or its end")
        # Only now: once headers are out, a failure could no longer choose the HTTP status.
        await context.send_initial_metadata(label_headers(label))
        data = document.write(identity_of(label, created=self._clock.wall()), end)
        return httpbody_pb2.HttpBody(content_type=_JSON, data=data)

    async def _events(self, chat: ChatRequest, call: Call, context: Any) -> AsyncGenerator[httpbody_pb2.HttpBody, None]:
        chunks: Chunks | None = None
        # The label comes with the first text: their chunks leave together, as one message.
        opening = b""
        try:
            async with aclosing(self._flow.answer(call)) as events:
                async for event in events:
                    if isinstance(event, router_pb2.RouteLabel):
                        await context.send_initial_metadata(label_headers(event))
                        chunks = Chunks(
                            identity_of(event, created=self._clock.wall()),
                            choice_count=max(1, call.request.sampling.choice_count),
                            include_usage=chat.include_usage,
                        )
                        opening = chunks.begin()
                        continue
                    if chunks is None:
                        raise InternalError("an answer began without its label")
                    if isinstance(event, answer_pb2.Delta):
                        data = chunks.piece(event)
                    elif isinstance(event, Completed):
                        data = chunks.end(event)
                    else:
                        # OpenAI's stream has no word for a revision, and its requests never ask for one.
                        data = b""
                    if opening or data:
                        yield httpbody_pb2.HttpBody(content_type=_EVENTS, data=opening + data)
                        opening = b""
        except TiermeshError as error:
            if chunks is not None:
                yield httpbody_pb2.HttpBody(content_type=_EVENTS, data=opening + failure_event(error))
            raise
        except Exception:
            # A defect: the caller learns that the answer is not complete, the log learns the rest.
            if chunks is not None:
                failure = failure_event(InternalError("an unexpected error ended the answer"))
                yield httpbody_pb2.HttpBody(content_type=_EVENTS, data=opening + failure)
            raise
