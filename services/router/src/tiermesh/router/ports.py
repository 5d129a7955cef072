"""What the router needs from the rest of the mesh."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Sequence
from typing import Protocol

from tiermesh.api.cache.v1 import cache_pb2
from tiermesh.api.classifier.v1 import classifier_pb2
from tiermesh.api.engine.v1 import engine_pb2
from tiermesh.api.outcome.v1 import record_pb2
from tiermesh.api.router.v1 import router_pb2
from tiermesh.router.caching.place import CachePlace, Keeping
from tiermesh.shared.budget import Budget


class CachePort(Protocol):
    """Answers given before."""

    async def lookup(self, place: CachePlace, *, budget: Budget, token_only: bool = False) -> cache_pb2.LookupResponse:
        """Returns what is kept at `place`: a hit or a miss; with `token_only`, only what storing there needs.

        Raises:
            TiermeshError: the cache or its store did not answer within `budget`.
        """
        ...

    async def store(self, answers: Sequence[Keeping], *, budget: Budget) -> int:
        """Files answers; returns how many were written.

        Raises:
            TiermeshError: the cache did not answer within `budget`.
        """
        ...


class RunsPort(Protocol):
    """Runs that routers share. Every method raises `TiermeshError` where the cache does not answer."""

    def lead(self, router: str, *, budget: Budget) -> AsyncGenerator[Sequence[str], None]:
        """Stands for this router: yields nothing once its claims count, then tokens of runs that are wanted elsewhere."""
        ...

    async def publish(
        self, token: str, first: int, events: Sequence[router_pb2.GenerateResponse], *, last: bool, budget: Budget
    ) -> int:
        """Hands over events numbered from `first`; `last` ends the claim. Returns how many still wait for more."""
        ...

    def follow(self, token: str, *, budget: Budget) -> AsyncGenerator[router_pb2.GenerateResponse, None]:
        """Streams the events of another router's run; without its end where that router is gone."""
        ...


class ClassifierPort(Protocol):
    """Judges how hard a request is."""

    async def classify(
        self, request: classifier_pb2.ClassifyRequest, *, budget: Budget
    ) -> classifier_pb2.ClassifyResponse:
        """Returns the judgement.

        Raises:
            TiermeshError: the classifier did not answer within `budget`.
        """
        ...


class Replicas(Protocol):
    """Where the replicas of each cluster are."""

    def addresses(self, cluster: str) -> Sequence[str]:
        """Returns the addresses (`host:port`) of a cluster's replicas, as far as they are known."""
        ...


class EnginePool(Protocol):
    """The engines of every tier."""

    def generate(
        self, tier: str, request: engine_pb2.GenerateRequest, *, budget: Budget
    ) -> AsyncGenerator[engine_pb2.GenerateResponse, None]:
        """Streams an answer from one engine of `tier`. Closing the generator aborts the generation.

        Raises:
            TiermeshError: the call failed.
        """
        ...


class OutcomeLog(Protocol):
    """The log of what came of requests."""

    async def record(self, outcomes: Sequence[record_pb2.Outcome], *, budget: Budget) -> None:
        """Files records; filing one again changes nothing.

        Raises:
            TiermeshError: the log did not answer within `budget`, or refuses them.
        """
        ...

    async def add_feedback(
        self, tenant: str, request_id: str, feedback: record_pb2.Feedback, *, budget: Budget
    ) -> bool:
        """Files an opinion on a tenant's request; returns whether the request is among those sampled.

        Raises:
            UnknownRequest: the tenant has no such request in the log.
            TiermeshError: the log did not answer within `budget`.
        """
        ...

    async def judged(self, *, limit: int, since_s: float, budget: Budget) -> Sequence[record_pb2.Outcome]:
        """Returns the newest `limit` records with feedback of requests that arrived at or after `since_s`, without texts.

        Raises:
            TiermeshError: the log did not answer within `budget`.
        """
        ...
