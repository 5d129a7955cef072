"""Who is connected, and what each has acknowledged or refused."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Literal

from tiermesh.mesh.resource_type import ResourceType
from tiermesh.mesh.role import ROLES, Role

Protocol = Literal["sotw", "delta"]


class UnknownNode(Exception):
    """The first message of a stream does not say who sends it, or in which role."""


@dataclass(slots=True)
class Subscriber:
    """One stream."""

    node_id: str
    role: Role
    protocol: Protocol
    acknowledged: dict[ResourceType, str] = field(default_factory=dict)
    """Version last acknowledged, by type."""
    refused: dict[ResourceType, str] = field(default_factory=dict)
    """Why the newest version was refused, by type; an acknowledgement of a newer one clears it."""

    @property
    def last_error(self) -> str:
        """Everything that it refuses now, in words; empty when nothing."""
        return "; ".join(f"{kind.name.lower()}: {reason}" for kind, reason in self.refused.items())


class Subscribers:
    """Every stream that is open."""

    def __init__(self) -> None:
        self._open: list[Subscriber] = []

    @contextmanager
    def joined(self, subscriber: Subscriber) -> Iterator[None]:
        """Lists a subscriber for as long as the block lasts."""
        self._open.append(subscriber)
        try:
            yield
        finally:
            # By identity: two Envoys may look alike.
            self._open = [s for s in self._open if s is not subscriber]

    def __iter__(self) -> Iterator[Subscriber]:
        return iter(tuple(self._open))


def identify(node: object, protocol: Protocol) -> Subscriber:
    """Returns the subscriber that a stream's first message names.

    Raises:
        UnknownNode: it names none, or a role that does not exist.
    """
    node_id = getattr(node, "id", "")
    if not node_id:
        raise UnknownNode("the first message of a stream must carry node.id")
    fields = node.metadata.fields  # type: ignore[attr-defined] # a protobuf Struct; the generated code has no types
    role = fields["role"].string_value if "role" in fields else "local"
    for known in ROLES:
        if role == known:
            return Subscriber(node_id, known, protocol)
    raise UnknownNode(f"node {node_id!r}: metadata.role is {role!r}; allowed: {', '.join(ROLES)}")
