"""The client for ordinary code, without asyncio."""

from __future__ import annotations

import random as _random
import time
from collections.abc import Callable
from types import TracebackType
from typing import Any, Self

import grpc
from tiermesh.api.router.v1 import router_pb2, router_pb2_grpc
from tiermesh.client._answer import Answer
from tiermesh.client._deadlines import Deadlines, Lane
from tiermesh.client._door import call_metadata, channel_credentials, channel_options, checked_target, find_door
from tiermesh.client._request import Prompt, lane_of, make_report, make_request
from tiermesh.client._retries import Attempts, RetryPolicy, RetryTokens
from tiermesh.client._sync_stream import AnswerStream
from tiermesh.shared.budget import Budget
from tiermesh.shared.clock import SYSTEM_CLOCK, Clock
from tiermesh.shared.rpc import error_from_rpc, told_by_ingress, wire_timeout


class Client:
    """Speaks to a mesh. Open it with `with`; it may be shared by any number of threads.

    Args:
        target: `host:port` of the ingress, or any other gRPC target.
        api_key: Key of a tenant.
        tls: Whether to use TLS, or gRPC credentials to use.
        deadlines: Defaults for calls without a deadline; `Client.local` knows the mesh's own.
        retries: How often and how far apart.
        tokens: Pass one to several clients to share it between them.
        clock: Times deadlines.
        sleep: Waits between attempts.
        random: Numbers from 0 to below 1, for jitter.
    """

    def __init__(
        self,
        target: str,
        *,
        api_key: str | None = None,
        tls: bool | grpc.ChannelCredentials = False,
        deadlines: Deadlines | None = None,
        retries: RetryPolicy | None = None,
        tokens: RetryTokens | None = None,
        clock: Clock = SYSTEM_CLOCK,
        sleep: Callable[[float], None] = time.sleep,
        random: Callable[[], float] = _random.random,
    ) -> None:
        options, credentials = channel_options(checked_target(target)), channel_credentials(tls)
        self._channel = (
            grpc.insecure_channel(target, options=options)
            if credentials is None
            else grpc.secure_channel(target, credentials, options=options)
        )
        self._stub = router_pb2_grpc.RouterServiceStub(self._channel)
        self._api_key = api_key
        self._deadlines = deadlines or Deadlines()
        self._retries = retries or RetryPolicy()
        self._tokens = tokens or RetryTokens()
        self._clock = clock
        self._sleep = sleep
        self._random = random

    @classmethod
    def local(cls, profile: str | None = None, **options: Any) -> Self:
        """Returns a client of the mesh that runs on this machine, with its key and its lanes.

        Raises:
            MeshNotFound: none runs here, or several and `profile` names none.
        """
        door = find_door(profile)
        return cls(door.target, **{"api_key": door.api_key, "deadlines": door.deadlines, **options})

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Closes the connection; calls in flight are cancelled."""
        self._channel.close()

    def stream(
        self,
        prompt: Prompt,
        *,
        deadline_s: float | None = None,
        lane: Lane | None = None,
        traceparent: str | None = None,
        **request: Any,
    ) -> AnswerStream:
        """Asks, and returns the answer's stream; the call begins with the first event that is read.

        Args:
            prompt: A question, messages, or a whole request.
            deadline_s: Seconds from now until the answer is no longer wanted, attempts and waits
                together; the default is the lane's.
            lane: Picks the default deadline; by default `batch` for batch requests, else `complex`.
            traceparent: W3C trace context; by default that of the current OpenTelemetry span.
            request: Arguments of `make_request`, such as `model=`, `system=`, `max_tokens=`.

        Raises:
            ValueError: an argument does not fit.
        """
        message = make_request(prompt, **request)
        lane = lane_of(message, lane)
        budget = self._budget(deadline_s, lane)
        metadata = call_metadata(self._api_key, traceparent)

        def complete(seconds: float) -> None:
            self._tokens.succeeded()
            self._deadlines.note(lane, seconds)

        return AnswerStream(
            lambda left: self._stub.Generate(message, timeout=wire_timeout(left), metadata=metadata),
            budget=budget,
            attempts=self._attempts(budget, lane),
            complete=complete,
            sleep=self._sleep,
        )

    def ask(self, prompt: Prompt, **arguments: Any) -> Answer:
        """Asks, and returns the whole answer. Arguments are those of `stream`.

        Raises:
            TiermeshError: there is none: DeadlineError, Overloaded, Unavailable, InvalidRequest, ...
        """
        with self.stream(prompt, **arguments) as stream:
            for _ in stream:
                pass
            return stream.answer()

    def explain(
        self,
        prompt: Prompt,
        *,
        deadline_s: float | None = None,
        lane: Lane | None = None,
        traceparent: str | None = None,
        **request: Any,
    ) -> router_pb2.ExplainResponse:
        """Returns where the request would go and why, without running a model. Arguments are those of `stream`.

        Raises:
            TiermeshError: the mesh does not say.
        """
        message = router_pb2.ExplainRequest(request=make_request(prompt, **request))
        lane = lane_of(message.request, lane)
        response: router_pb2.ExplainResponse = self._unary("Explain", message, deadline_s, lane, traceparent)
        return response

    def report(
        self, request_id: str, *, deadline_s: float | None = None, traceparent: str | None = None, **opinion: Any
    ) -> bool:
        """Says how good an answer was, for the mesh to learn from; returns whether that was filed.

        It is not where the request was not among those sampled. Arguments are those of `make_report`.

        Raises:
            UnknownRequest: the log has no such request of this tenant.
            FeatureOff: the mesh keeps no log.
            TiermeshError: the mesh does not answer.
        """
        message = make_report(request_id, **opinion)
        response: router_pb2.ReportOutcomeResponse = self._unary(
            "ReportOutcome", message, deadline_s, Lane.SIMPLE, traceparent
        )
        return response.recorded

    def _unary(self, method: str, message: Any, deadline_s: float | None, lane: Lane, traceparent: str | None) -> Any:
        """Makes a call that may be made again."""
        budget = self._budget(deadline_s, lane)
        attempts = self._attempts(budget, lane)
        metadata = call_metadata(self._api_key, traceparent)
        call = getattr(self._stub, method)
        while True:
            timeout = wire_timeout(budget.require("the request"))
            try:
                response = call(message, timeout=timeout, metadata=metadata)
            except grpc.RpcError as error:
                failure = error_from_rpc(error)
                wait = attempts.after(failure, settled=told_by_ingress(error))
                if wait is None:
                    raise failure from None
            else:
                self._tokens.succeeded()
                return response
            self._sleep(wait)

    def _budget(self, deadline_s: float | None, lane: Lane) -> Budget:
        return Budget.of(self._deadlines.default_s(lane) if deadline_s is None else deadline_s, self._clock)

    def _attempts(self, budget: Budget, lane: Lane) -> Attempts:
        typical = self._deadlines.typical_s(lane)
        return Attempts(self._retries, self._tokens, budget, typical_s=typical, random=self._random)
