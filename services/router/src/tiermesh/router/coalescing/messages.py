"""Events of a run as they travel between routers: those of the typed door, without what is a caller's own."""

from __future__ import annotations

from tiermesh.api.common.v1 import answer_pb2
from tiermesh.api.router.v1 import router_pb2
from tiermesh.router.events import Completed, Event
from tiermesh.shared.errors import TiermeshError
from tiermesh.shared.rpc import error_of, failure_of


def message_of(event: Event | TiermeshError) -> router_pb2.GenerateResponse:
    """Returns an event, or the error that ends a run, as a message."""
    if isinstance(event, answer_pb2.Delta):
        return router_pb2.GenerateResponse(delta=event)
    if isinstance(event, router_pb2.RouteLabel):
        return router_pb2.GenerateResponse(route=event)
    if isinstance(event, router_pb2.Revision):
        return router_pb2.GenerateResponse(revision=event)
    if isinstance(event, TiermeshError):
        return router_pb2.GenerateResponse(failure=failure_of(event))
    done = router_pb2.Done(finishes=event.finishes, usage=event.usage, reasons=event.reasons)
    return router_pb2.GenerateResponse(done=done)


def event_of(message: router_pb2.GenerateResponse) -> Event | None:
    """Returns the event of a message; None for one that this version does not know.

    Raises:
        TiermeshError: the message ends the run with an error.
    """
    kind = message.WhichOneof("event")
    if kind == "route":
        return message.route
    if kind == "delta":
        return message.delta
    if kind == "revision":
        return message.revision
    if kind == "failure":
        raise error_of(message.failure)
    if kind == "done":
        done = message.done
        return Completed(done.finishes, done.usage, (), True, 0.0, reasons=tuple(done.reasons))
    return None
