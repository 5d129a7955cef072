"""State-of-the-world ADS: the state machine of one stream, without I/O.

Every response lists all that the client wants of a type. What a client was sent stays recorded even
if it refuses it: the good resources of a refused response are applied, and sending the same again
would only be refused again, for ever. So a refused type is parked until its content changes.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from envoy.service.discovery.v3 import discovery_pb2
from tiermesh.mesh.ads.interest import Interest
from tiermesh.mesh.ads.subscribers import Subscriber
from tiermesh.mesh.push_order import PUSH_ORDER, REMOVAL_ORDER
from tiermesh.mesh.resource_type import ResourceType
from tiermesh.mesh.snapshot import Resource, Snapshot, subset_version

_TYPES = {kind.value: kind for kind in ResourceType}


@dataclass(slots=True)
class _Watch:
    """One type on the stream."""

    interest: Interest = field(default_factory=Interest)
    nonce: str = ""
    version: str = ""
    sent: dict[str, Resource] = field(default_factory=dict)
    """What the last response held."""


class SotwStream:
    """The state of one stream, from its first message on."""

    def __init__(self, subscriber: Subscriber, snapshot: Snapshot) -> None:
        self._subscriber = subscriber
        self._snapshot = snapshot
        self._watches: dict[ResourceType, _Watch] = {}
        self._count = 0

    def on_request(self, request: Any) -> list[Any]:
        """Takes a DiscoveryRequest, which subscribes, acknowledges or refuses; returns DiscoveryResponses."""
        kind = _TYPES.get(request.type_url)
        if kind is None:
            return []
        watch = self._watches.get(kind)
        if watch is None:
            # Also a reconnect, which brings a version from an earlier stream and no nonce. All is sent anew: equal
            # content has an equal version and changes nothing, and a cluster that was warming gets its endpoints.
            watch = self._watches[kind] = _Watch()
        elif request.response_nonce != watch.nonce:
            # Stale: written before our last response, whose own answer will carry the names wanted then.
            return []
        else:
            self._note_answer(kind, watch, request)
        before, first = watch.interest, not watch.nonce
        watch.interest = before.replaced(request.resource_names)
        wanted = watch.interest.select(self._snapshot.of_type(kind))
        gained = wanted.keys() - before.select(wanted).keys()
        if not first and not gained:
            # An acknowledgement, a refusal, or fewer names: nothing to send.
            watch.sent = {name: r for name, r in watch.sent.items() if watch.interest.wants(name)}
            return []
        if not wanted and not kind.whole:
            # Sent as soon as it exists. Only for whole types does an empty answer say anything.
            return []
        responses = [self._respond(kind, watch, wanted)]
        if kind is ResourceType.CLUSTER:
            responses += self._rewarm(set(wanted))
        return responses

    def on_snapshot(self, snapshot: Snapshot) -> list[Any]:
        """Takes a new snapshot; returns what to send, in order, without waiting for acknowledgements.

        An Envoy does not acknowledge clusters before they are warm, and they are not warm before their endpoints came.
        """
        self._snapshot = snapshot
        return [*self._additions(), *self._removals()]

    def _additions(self) -> Iterator[Any]:
        rewarming: set[str] = set()
        for kind in PUSH_ORDER:
            watch = self._watches.get(kind)
            if watch is None:
                continue
            wanted = watch.interest.select(self._snapshot.of_type(kind))
            # What is to go stays for now: routes may still lead to it.
            target = {**watch.sent, **wanted} if kind.whole else wanted
            changed = _changed(watch.sent, target)
            if kind is ResourceType.CLUSTER:
                rewarming = changed
            forced = kind is ResourceType.ENDPOINTS and bool(rewarming & target.keys())
            if changed or forced:
                yield self._respond(kind, watch, target)
            elif not kind.whole:
                watch.sent = target

    def _removals(self) -> Iterator[Any]:
        for kind in REMOVAL_ORDER:
            watch = self._watches.get(kind)
            if watch is None or not kind.whole:
                continue
            wanted = watch.interest.select(self._snapshot.of_type(kind))
            if watch.sent.keys() - wanted.keys():
                yield self._respond(kind, watch, wanted)

    def _rewarm(self, clusters: set[str]) -> list[Any]:
        watch = self._watches.get(ResourceType.ENDPOINTS)
        if watch is None:
            return []
        wanted = watch.interest.select(self._snapshot.of_type(ResourceType.ENDPOINTS))
        return [self._respond(ResourceType.ENDPOINTS, watch, wanted)] if clusters & wanted.keys() else []

    def _note_answer(self, kind: ResourceType, watch: _Watch, request: Any) -> None:
        if request.HasField("error_detail"):
            self._subscriber.refused[kind] = request.error_detail.message
        elif request.version_info == watch.version:
            self._subscriber.acknowledged[kind] = watch.version
            self._subscriber.refused.pop(kind, None)

    def _respond(self, kind: ResourceType, watch: _Watch, resources: Mapping[str, Resource]) -> Any:
        self._count += 1
        # Recorded before it is sent: the answer may come while the response is still being written.
        watch.nonce = str(self._count)
        watch.version = subset_version(resources.values())
        watch.sent = dict(resources)
        return discovery_pb2.DiscoveryResponse(
            type_url=kind.value,
            version_info=watch.version,
            nonce=watch.nonce,
            resources=[r.packed for r in resources.values()],
        )


def _changed(sent: Mapping[str, Resource], target: Mapping[str, Resource]) -> set[str]:
    return {name for name, r in target.items() if name not in sent or sent[name].version != r.version}
