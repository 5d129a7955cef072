"""Servicers that do what a test tells them: cache, classifier and engine, for the router's tests."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Sequence
from typing import Any

from tiermesh.api.cache.v1 import cache_pb2, cache_pb2_grpc
from tiermesh.api.classifier.v1 import classifier_pb2, classifier_pb2_grpc
from tiermesh.api.common.v1 import answer_pb2
from tiermesh.api.engine.v1 import engine_pb2, engine_pb2_grpc
from tiermesh.shared.errors import TiermeshError
from tiermesh.shared.rpc import Service


class _Told:
    """Fails or hangs when told to, and notes that a hanging call was abandoned."""

    def __init__(self) -> None:
        self.error: TiermeshError | None = None
        """Raised by every call."""
        self.hangs = False
        """Whether calls wait until they are abandoned."""
        self.entered = asyncio.Event()
        """Set once a call has arrived."""
        self.abandoned = asyncio.Event()
        """Set once a call was cancelled, by its caller or by its deadline."""

    async def _obey(self) -> None:
        self.entered.set()
        if self.error is not None:
            raise self.error
        if self.hangs:
            await self._hang()

    async def _hang(self) -> None:
        try:
            await asyncio.get_running_loop().create_future()
        except asyncio.CancelledError:
            self.abandoned.set()
            raise


class FakeCache(_Told, cache_pb2_grpc.CacheServiceServicer):
    """Keeps answers in a dictionary."""

    def __init__(self) -> None:
        super().__init__()
        self.answers: dict[tuple[str, bytes], cache_pb2.CachedAnswer] = {}
        self.lookups: list[cache_pb2.CacheKey] = []
        self.tokens: list[cache_pb2.CacheKey] = []
        """Lookups that only wanted a token."""
        self.generation = 0
        """Counts invalidations; answers begun before the last one are not kept."""
        self.stores: list[cache_pb2.StoreRequest] = []
        self.stored = asyncio.Event()
        """Set whenever an answer has been kept."""
        self.store_unavailable = False
        """Whether lookups report that the store did not answer."""
        self.store_gate: asyncio.Event | None = None
        """Held back by it, answers are kept only once it is set."""

    async def Lookup(self, request: cache_pb2.LookupRequest, context: Any) -> cache_pb2.LookupResponse:  # noqa: ARG002, N802 -- gRPC's signature
        """Finds an answer."""
        (self.tokens if request.token_only else self.lookups).append(request.key)
        await self._obey()
        if self.store_unavailable:
            return cache_pb2.LookupResponse(result=cache_pb2.CACHE_RESULT_STORE_UNAVAILABLE)
        answer = self.answers.get((request.key.tenant, request.key.fingerprint))
        token = self.generation.to_bytes(16, "big")
        if answer is None or request.token_only:
            return cache_pb2.LookupResponse(result=cache_pb2.CACHE_RESULT_MISS, store_token=token)
        return cache_pb2.LookupResponse(result=cache_pb2.CACHE_RESULT_HIT_EXACT, answer=answer, store_token=token)

    async def Store(self, request: cache_pb2.StoreRequest, context: Any) -> cache_pb2.StoreResponse:  # noqa: ARG002, N802 -- gRPC's signature
        """Keeps an answer."""
        await self._obey()
        return await self._keep(request)

    async def BatchStore(self, request: cache_pb2.BatchStoreRequest, context: Any) -> cache_pb2.BatchStoreResponse:  # noqa: ARG002, N802 -- gRPC's signature
        """Keeps several answers."""
        await self._obey()
        return cache_pb2.BatchStoreResponse(responses=[await self._keep(each) for each in request.requests])

    async def _keep(self, request: cache_pb2.StoreRequest) -> cache_pb2.StoreResponse:
        if self.store_gate is not None:
            await self.store_gate.wait()
        self.stores.append(request)
        if request.token and request.token != self.generation.to_bytes(16, "big"):
            return cache_pb2.StoreResponse(stored=False)
        self.answers[request.key.tenant, request.key.fingerprint] = request.answer
        self.stored.set()
        return cache_pb2.StoreResponse(stored=True)

    async def Invalidate(self, request: cache_pb2.InvalidateRequest, context: Any) -> cache_pb2.InvalidateResponse:  # noqa: ARG002, N802 -- gRPC's signature
        """Forgets all of a tenant."""
        self.generation += 1
        gone = [key for key in self.answers if key[0] == request.tenant]
        for key in gone:
            del self.answers[key]
        return cache_pb2.InvalidateResponse(removed_count=len(gone))

    def service(self) -> Service:
        """Returns how to host it."""
        name = cache_pb2.DESCRIPTOR.services_by_name["CacheService"].full_name
        return Service(name, lambda server: cache_pb2_grpc.add_CacheServiceServicer_to_server(self, server))


class FakeClassifier(_Told, classifier_pb2_grpc.ClassifierServiceServicer):
    """Gives every request the same judgement."""

    def __init__(self) -> None:
        super().__init__()
        self.requests: list[classifier_pb2.ClassifyRequest] = []
        self.response = classifier_pb2.ClassifyResponse(
            task_type=classifier_pb2.TASK_TYPE_QA,
            complexity=0.3,
            confidence=0.9,
            rules=["question"],
            languages=["en"],
            features={"words": 5.0},
            version="fake-1",
            source="rules",
            estimated_prompt_token_count=20,
        )

    async def Classify(  # noqa: N802 -- gRPC's name
        self,
        request: classifier_pb2.ClassifyRequest,
        context: Any,  # noqa: ARG002 -- gRPC's signature
    ) -> classifier_pb2.ClassifyResponse:
        """Returns the judgement."""
        self.requests.append(request)
        await self._obey()
        return self.response

    def service(self) -> Service:
        """Returns how to host it."""
        name = classifier_pb2.DESCRIPTOR.services_by_name["ClassifierService"].full_name
        return Service(name, lambda server: classifier_pb2_grpc.add_ClassifierServiceServicer_to_server(self, server))


Step = engine_pb2.GenerateResponse | TiermeshError | asyncio.Event
"""What a scripted engine does next: send an event, fail, or wait."""


class ScriptedEngine(_Told, engine_pb2_grpc.EngineServiceServicer):
    """Answers every prompt with the same steps."""

    def __init__(self, *steps: Step) -> None:
        super().__init__()
        self.steps: Sequence[Step] = steps
        self.requests: list[engine_pb2.GenerateRequest] = []
        self.load_watched = asyncio.Event()
        """Set once someone watches the load."""
        self._load = engine_pb2.WatchLoadResponse(slot_count=1)
        self._load_changed = asyncio.Event()

    async def Generate(  # noqa: N802 -- gRPC's name
        self,
        request: engine_pb2.GenerateRequest,
        context: Any,  # noqa: ARG002 -- gRPC's signature
    ) -> AsyncGenerator[engine_pb2.GenerateResponse, None]:
        """Takes the steps."""
        self.requests.append(request)
        await self._obey()
        try:
            for step in self.steps:
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

    async def WatchLoad(  # noqa: N802 -- gRPC's name
        self,
        request: engine_pb2.WatchLoadRequest,  # noqa: ARG002 -- gRPC's signature
        context: Any,  # noqa: ARG002 -- gRPC's signature
    ) -> AsyncGenerator[engine_pb2.WatchLoadResponse, None]:
        """Reports the load, and every other one that it is given."""
        self.load_watched.set()
        while True:
            changed = self._load_changed
            yield self._load
            await changed.wait()

    def report_load(self, load: engine_pb2.WatchLoadResponse) -> None:
        """Sends a load to everyone who watches."""
        changed, self._load, self._load_changed = self._load_changed, load, asyncio.Event()
        changed.set()

    async def GetModel(self, request: engine_pb2.GetModelRequest, context: Any) -> engine_pb2.GetModelResponse:  # noqa: ARG002, N802 -- gRPC's signature
        """Describes nothing in particular."""
        return engine_pb2.GetModelResponse()

    def service(self) -> Service:
        """Returns how to host it."""
        name = engine_pb2.DESCRIPTOR.services_by_name["EngineService"].full_name
        return Service(name, lambda server: engine_pb2_grpc.add_EngineServiceServicer_to_server(self, server))


def answer_steps(*pieces: str, choices: int = 1, finish: answer_pb2.FinishReason.ValueType | None = None) -> list[Step]:
    """Returns the steps of a complete answer.

    Args:
        pieces: Texts of each choice, in order.
        choices: Number of choices, which all have the same text.
        finish: Why they end; the default is FINISH_REASON_STOP.
    """
    reason = answer_pb2.FINISH_REASON_STOP if finish is None else finish
    steps: list[Step] = [engine_pb2.GenerateResponse(started=engine_pb2.Started(model="scripted"))]
    steps += [
        engine_pb2.GenerateResponse(delta=answer_pb2.Delta(choice_index=n, text=piece, token_ids=[n]))
        for piece in pieces
        for n in range(choices)
    ]
    done = engine_pb2.Done(
        finishes=[answer_pb2.ChoiceFinish(choice_index=n, finish_reason=reason) for n in range(choices)],
        usage=answer_pb2.Usage(
            prompt_token_count=7, completion_token_count=len(pieces) * choices, cached_prompt_token_count=2
        ),
    )
    return [*steps, engine_pb2.GenerateResponse(done=done)]
