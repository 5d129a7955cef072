"""Delta ADS: the state machine of one stream, without I/O.

Responses list changes only. What a client was sent counts as known even if it refuses it: the good
resources of a refused response are applied, and the bad ones would be refused again. A refused
resource is therefore parked until its content changes.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from envoy.service.discovery.v3 import discovery_pb2
from tiermesh.mesh.ads.interest import WILDCARD, Interest
from tiermesh.mesh.ads.subscribers import Subscriber
from tiermesh.mesh.push_order import PUSH_ORDER, REMOVAL_ORDER
from tiermesh.mesh.resource_type import ResourceType
from tiermesh.mesh.snapshot import Resource, Snapshot, subset_version

_TYPES = {kind.value: kind for kind in ResourceType}
_ABSENT = ""
"""Version of a resource that the client was told does not exist."""


@dataclass(slots=True)
class _Watch:
    """One type on the stream."""

    interest: Interest = field(default_factory=Interest)
    nonce: str = ""
    version: str = ""
    known: dict[str, str] = field(default_factory=dict)
    """Version of each resource that the client has, or was told is absent."""
    unanswered: dict[str, frozenset[str]] = field(default_factory=dict)
    """Names in each response that was neither acknowledged nor refused yet, by nonce."""
    refused: set[str] = field(default_factory=set)
    """Names in refused responses that no acknowledged response has brought since."""


class DeltaStream:
    """The state of one stream, from its first message on."""

    def __init__(self, subscriber: Subscriber, snapshot: Snapshot) -> None:
        self._subscriber = subscriber
        self._snapshot = snapshot
        self._watches: dict[ResourceType, _Watch] = {}
        self._count = 0

    def on_request(self, request: Any) -> list[Any]:
        """Takes a DeltaDiscoveryRequest, which subscribes, acknowledges or refuses; returns DeltaDiscoveryResponses."""
        kind = _TYPES.get(request.type_url)
        if kind is None:
            return []
        watch = self._watches.get(kind)
        first = watch is None
        if watch is None:
            watch = self._watches[kind] = _Watch()
            if kind is not ResourceType.ENDPOINTS:
                # A reconnect says what it still has. Endpoints are sent anew all the same: the cluster may be warming.
                watch.known = dict(request.initial_resource_versions)
        elif request.response_nonce:
            self._note_answer(kind, watch, request)
        # Changes of interest count whatever the nonce: each is told once.
        subscribe, unsubscribe = request.resource_names_subscribe, request.resource_names_unsubscribe
        watch.interest = watch.interest.changed(subscribe, unsubscribe, first=first)
        for name in unsubscribe:
            watch.known.pop(name, None)
        if not first:
            for name in subscribe:
                # Asked for again: the client has dropped it.
                watch.known.pop(name, None)
        gone = sorted(name for name in self._missing(kind, watch) if first or name in subscribe)
        changed = self._changed(kind, watch) if first or subscribe else []
        if not changed and not gone and not (first and kind.whole and not watch.known):
            if first and watch.known:
                # A reconnect that holds all of it already: as good as an acknowledgement.
                self._subscriber.acknowledged[kind] = self._version(kind, watch)
            return []
        responses = [self._respond(kind, watch, changed, gone)]
        if kind is ResourceType.CLUSTER:
            responses += self._rewarm({r.name for r in changed})
        return responses

    def on_snapshot(self, snapshot: Snapshot) -> list[Any]:
        """Takes a new snapshot; returns what to send, in order, without waiting for acknowledgements.

        An Envoy does not acknowledge clusters before they are warm, and they are not warm before their endpoints came.
        """
        self._snapshot = snapshot
        return [*self._additions(), *self._removals()]

    def _additions(self) -> Iterator[Any]:
        for kind in PUSH_ORDER:
            watch = self._watches.get(kind)
            if watch is None:
                continue
            changed = self._changed(kind, watch)
            if changed:
                yield self._respond(kind, watch, changed, ())
            if kind is ResourceType.CLUSTER:
                self._forget_endpoints({r.name for r in changed})

    def _removals(self) -> Iterator[Any]:
        for kind in REMOVAL_ORDER:
            watch = self._watches.get(kind)
            if watch is None:
                continue
            gone = sorted(self._missing(kind, watch))
            if gone:
                yield self._respond(kind, watch, (), gone)

    def _rewarm(self, clusters: set[str]) -> list[Any]:
        watch = self._watches.get(ResourceType.ENDPOINTS)
        if watch is None:
            return []
        self._forget_endpoints(clusters)
        changed = self._changed(ResourceType.ENDPOINTS, watch)
        return [self._respond(ResourceType.ENDPOINTS, watch, changed, ())] if changed else []

    def _forget_endpoints(self, clusters: set[str]) -> None:
        """Has the endpoints of changed clusters sent again, even if they are the same: a changed cluster warms anew."""
        watch = self._watches.get(ResourceType.ENDPOINTS)
        if watch is not None:
            for name in clusters:
                watch.known.pop(name, None)

    def _changed(self, kind: ResourceType, watch: _Watch) -> list[Resource]:
        wanted = watch.interest.select(self._snapshot.of_type(kind))
        return [r for name, r in wanted.items() if watch.known.get(name) != r.version]

    def _missing(self, kind: ResourceType, watch: _Watch) -> set[str]:
        """Names that the client has, or asked for, and that do not exist; each is told once."""
        held = {name for name, version in watch.known.items() if version != _ABSENT}
        asked = {name for name in watch.interest.names if watch.known.get(name) != _ABSENT}
        return (held | asked) - self._snapshot.of_type(kind).keys() - {WILDCARD}

    def _version(self, kind: ResourceType, watch: _Watch) -> str:
        return subset_version(watch.interest.select(self._snapshot.of_type(kind)).values())

    def _note_answer(self, kind: ResourceType, watch: _Watch, request: Any) -> None:
        names = watch.unanswered.pop(request.response_nonce, None)
        if names is None:
            # Stale: a nonce of another stream, or one that was answered already.
            return
        if request.HasField("error_detail"):
            watch.refused |= names
            self._subscriber.refused[kind] = request.error_detail.message
            return
        # Another response may have been refused; only one with the same resources makes up for it.
        watch.refused -= names
        if not watch.refused:
            self._subscriber.refused.pop(kind, None)
            if request.response_nonce == watch.nonce:
                self._subscriber.acknowledged[kind] = watch.version

    def _respond(self, kind: ResourceType, watch: _Watch, changed: Sequence[Resource], gone: Iterable[str]) -> Any:
        self._count += 1
        # Recorded before it is sent: the answer may come while the response is still being written.
        watch.nonce = str(self._count)
        watch.version = self._version(kind, watch)
        response = discovery_pb2.DeltaDiscoveryResponse(
            type_url=kind.value, nonce=watch.nonce, system_version_info=watch.version, removed_resources=list(gone)
        )
        watch.unanswered[watch.nonce] = frozenset([*(r.name for r in changed), *response.removed_resources])
        for resource in changed:
            watch.known[resource.name] = resource.version
            response.resources.add(name=resource.name, version=resource.version, resource=resource.packed)
        for name in response.removed_resources:
            if name in watch.interest.names:
                watch.known[name] = _ABSENT
            else:
                watch.known.pop(name, None)
        return response
