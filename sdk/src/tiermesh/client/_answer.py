"""A complete answer, and the book that is kept of a stream until it is one."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass

import grpc
from tiermesh.api.common.v1 import answer_pb2
from tiermesh.api.router.v1 import router_pb2
from tiermesh.shared.errors import InferenceTimeout, StreamBroken, TiermeshError
from tiermesh.shared.rpc import error_from_rpc, error_of, has_details, told_by_ingress

_AT_THE_DEADLINE_S = 0.05
"""Envoy's timer for the deadline may end a stream this much before the client's own does."""


@dataclass(frozen=True, slots=True)
class Answer:
    """A complete answer."""

    texts: tuple[str, ...]
    """One text a choice; those of the last revision, where there was one."""
    route: router_pb2.RouteLabel
    """Where it came from and why."""
    done: router_pb2.Done
    """How it ended: finish reasons, every attempt, times, ledger."""
    revised_by: str = ""
    """Tier of the last revision; empty where there was none."""

    @property
    def text(self) -> str:
        """Text of the first choice."""
        return self.texts[0]

    @property
    def usage(self) -> answer_pb2.Usage:
        """Tokens over every attempt."""
        return self.done.usage


class Book:
    """What has come of one answer so far. One event after another goes through `enter`."""

    def __init__(self) -> None:
        self.begun = False
        """Whether any event has come; from then on the request cannot be tried again."""
        self.settled = False
        """Whether the mesh itself said that the call failed: what could be tried elsewhere, its Envoy has tried."""
        self.route = router_pb2.RouteLabel()
        """The label; empty until it has come."""
        self._texts: defaultdict[int, list[str]] = defaultdict(list)
        self._revision: router_pb2.Revision | None = None
        self._done: router_pb2.Done | None = None

    @property
    def complete(self) -> bool:
        """Whether the answer has come to its good end."""
        return self._done is not None

    def enter(self, event: router_pb2.GenerateResponse) -> None:
        """Enters an event.

        Raises:
            TiermeshError: it is the end of a failed answer.
        """
        self.begun = True
        match event.WhichOneof("event"):
            case "route":
                self.route = event.route
            case "delta":
                self._texts[event.delta.choice_index].append(event.delta.text)
            case "revision":
                self._revision = event.revision
            case "done":
                self._done = event.done
            case "failure":
                raise error_of(event.failure)

    def failure(self, error: grpc.RpcError, left_s: float) -> TiermeshError:
        """Returns what the bad status of its call means for the answer, with `left_s` seconds of its deadline left.

        The mesh says what failed. A status without its details is the connection's, or Envoy's that ended the stream at
        the deadline; once the headers of an answer have come, gRPC calls either INTERNAL. A mesh that cannot be reached
        stays UNAVAILABLE.
        """
        failure = error_from_rpc(error)
        self.settled = told_by_ingress(error)
        broken = ("STREAM_BROKEN", "INTERNAL", "UNAVAILABLE") if self.begun else ("STREAM_BROKEN",)
        if failure.reason not in broken or has_details(error):
            return failure
        if left_s <= _AT_THE_DEADLINE_S:
            return InferenceTimeout("the deadline passed before the answer was complete")
        return StreamBroken(f"the connection broke before the last event of the answer: {failure.message}")

    def answer(self) -> Answer:
        """Closes the book.

        Raises:
            StreamBroken: the terminal event has not come.
        """
        if self._done is None:
            raise StreamBroken("the answer ended without its last event; what came of it is not to be relied on")
        if self._revision is not None:
            texts, reviser = tuple(self._revision.texts), self._revision.tier
        else:
            count = max([1, *(index + 1 for index in self._texts), len(self._done.finishes)])
            texts, reviser = tuple("".join(self._texts[index]) for index in range(count)), ""
        return Answer(texts, self.route, self._done, reviser)
