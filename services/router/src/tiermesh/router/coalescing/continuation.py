"""Joins a successor's run onto what has been given out of an earlier one.

Pieces of two answers are never joined. So the successor's answer is given only where it repeats what
is out already, to the letter and from the same tier; what goes on from there is then all its own.
"""

from __future__ import annotations

from collections.abc import Sequence

from tiermesh.api.common.v1 import answer_pb2
from tiermesh.api.router.v1 import router_pb2
from tiermesh.router.events import Completed, Event


class DivergedError(Exception):
    """The successor's answer is another one."""


class Continuation:
    """Compares one run with what was given before.

    Args:
        given: Events that are out already; may be empty.
    """

    def __init__(self, given: Sequence[Event]) -> None:
        self._label: router_pb2.RouteLabel | None = None
        self._missing: dict[int, str] = {}
        self._revised = False
        for event in given:
            if isinstance(event, router_pb2.RouteLabel):
                self._label = event
            elif isinstance(event, answer_pb2.Delta):
                self._missing[event.choice_index] = self._missing.get(event.choice_index, "") + event.text
            elif isinstance(event, router_pb2.Revision):
                self._revised = True

    def admit(self, event: Event) -> Event | None:
        """Returns what of an event is new; None where all of it is out already.

        Raises:
            DivergedError: the event does not repeat what is out.
        """
        if self._label is None and not self._missing:
            return event
        if isinstance(event, router_pb2.RouteLabel):
            if self._label is not None and (event.tier, event.model) != (self._label.tier, self._label.model):
                raise DivergedError(f"tier {event.tier} cannot go on where tier {self._label.tier} broke off")
            return event if self._label is None else None
        if isinstance(event, answer_pb2.Delta):
            return self._rest_of(event)
        if isinstance(event, Completed) and any(self._missing.values()):
            raise DivergedError("the second answer is shorter than what the first had given")
        if self._revised:
            raise DivergedError("the first answer had been revised")
        return event

    def _rest_of(self, delta: answer_pb2.Delta) -> answer_pb2.Delta | None:
        missing = self._missing.get(delta.choice_index, "")
        if not missing:
            return delta
        both = min(len(missing), len(delta.text))
        if delta.text[:both] != missing[:both]:
            raise DivergedError("the second answer differs from the first")
        self._missing[delta.choice_index] = missing[both:]
        rest = delta.text[both:]
        if not rest:
            return None
        if delta.logprobs:
            # No telling which of its tokens are out already.
            raise DivergedError("the second answer's tokens do not end where the first's did")
        return answer_pb2.Delta(choice_index=delta.choice_index, text=rest)
