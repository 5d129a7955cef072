"""Small snapshots, and a client's side of both ADS variants, without a network."""

from __future__ import annotations

from typing import Any

from envoy.config.cluster.v3 import cluster_pb2
from envoy.config.endpoint.v3 import endpoint_pb2
from envoy.config.listener.v3 import listener_pb2
from envoy.config.route.v3 import route_pb2
from envoy.extensions.filters.network.http_connection_manager.v3 import http_connection_manager_pb2
from envoy.service.discovery.v3 import discovery_pb2
from tiermesh.mesh.ads.delta import DeltaStream
from tiermesh.mesh.ads.sotw import SotwStream
from tiermesh.mesh.ads.subscribers import Subscriber
from tiermesh.mesh.resource_type import ResourceType
from tiermesh.mesh.resources.endpoints import make_endpoints
from tiermesh.mesh.resources.message import make_message, typed
from tiermesh.mesh.snapshot import Snapshot
from tiermesh.shared.endpoints import Endpoint

CDS, EDS, LDS, RDS = PUSHED = (
    ResourceType.CLUSTER,
    ResourceType.ENDPOINTS,
    ResourceType.LISTENER,
    ResourceType.ROUTES,
)


def cluster(name: str, timeout: str = "1s") -> cluster_pb2.Cluster:
    """Returns an EDS cluster."""
    eds = {"eds_config": {"ads": {}, "resource_api_version": "V3"}}
    return make_message(
        cluster_pb2.Cluster, {"name": name, "type": "EDS", "connect_timeout": timeout, "eds_cluster_config": eds}
    )


def endpoints(name: str, *ports: int) -> endpoint_pb2.ClusterLoadAssignment:
    """Returns the endpoints of a cluster."""
    return make_endpoints(name, [Endpoint("127.0.0.1", port) for port in ports or (1,)])


def listener(name: str, port: int = 80) -> listener_pb2.Listener:
    """Returns a listener whose routes come by RDS under its own name."""
    rds = {"route_config_name": name, "config_source": {"ads": {}}}
    manager = typed(http_connection_manager_pb2.HttpConnectionManager, {"stat_prefix": name, "rds": rds})
    return make_message(
        listener_pb2.Listener,
        {
            "name": name,
            "address": {"socket_address": {"address": "127.0.0.1", "port_value": port}},
            "filter_chains": [{"filters": [{"name": "hcm", "typed_config": manager}]}],
        },
    )


def routes(name: str, *targets: str) -> route_pb2.RouteConfiguration:
    """Returns routes to clusters."""
    hosts = [
        {"name": t, "domains": [t], "routes": [{"match": {"prefix": "/"}, "route": {"cluster": t}}]} for t in targets
    ]
    return make_message(route_pb2.RouteConfiguration, {"name": name, "virtual_hosts": hosts})


def snapshot(*clusters: Any, door: str = "door", port: int = 80, **ports: int) -> Snapshot:
    """Returns a snapshot of some clusters, given by name or message, behind one listener; checked."""
    made = [c if not isinstance(c, str) else cluster(c) for c in clusters or ("a", "b")]
    names = [c.name for c in made]
    found = Snapshot.of(
        clusters=made,
        endpoints=[endpoints(name, ports.get(name, 1)) for name in names],
        listeners=[listener(door, port)],
        routes=[routes(door, *names)],
    )
    found.check()
    return found


class Client:
    """What an Envoy would do on one stream, by hand."""

    def __init__(self, variant: str, first: Snapshot) -> None:
        self.variant = variant
        self.subscriber = Subscriber("node", "local", variant)  # type: ignore[arg-type] # a parameter of tests
        self.stream: Any = (SotwStream if variant == "sotw" else DeltaStream)(self.subscriber, first)
        self.nonce: dict[ResourceType, str] = {}
        self.version: dict[ResourceType, str] = {}
        self.names: dict[ResourceType, list[str]] = {}

    def ask(self, kind: ResourceType, *names: str, nonce: str | None = None, **fields: Any) -> list[Any]:
        """Subscribes; over delta the names are added."""
        nonce = self.nonce.get(kind, "") if nonce is None else nonce
        self.names[kind] = list(names)
        if self.variant == "sotw":
            request = discovery_pb2.DiscoveryRequest(
                type_url=kind.value,
                resource_names=names,
                response_nonce=nonce,
                version_info=fields.pop("version_info", self.version.get(kind, "")),
                **fields,
            )
        else:
            # Over delta a change of interest is no answer, so it carries no nonce.
            request = discovery_pb2.DeltaDiscoveryRequest(type_url=kind.value, resource_names_subscribe=names, **fields)
        return self.take(self.stream.on_request(request))

    def drop(self, kind: ResourceType, *names: str) -> list[Any]:
        """Unsubscribes from names."""
        if self.variant == "sotw":
            return self.ask(kind, *(n for n in self.names[kind] if n not in names))
        request = discovery_pb2.DeltaDiscoveryRequest(type_url=kind.value, resource_names_unsubscribe=names)
        return self.take(self.stream.on_request(request))

    def answer(self, response: Any, error: str = "") -> list[Any]:
        """Acknowledges a response, or refuses it."""
        kind = ResourceType(response.type_url)
        fields: dict[str, Any] = {"error_detail": {"message": error}} if error else {}
        if self.variant == "sotw":
            if not error:
                self.version[kind] = response.version_info
            request: Any = discovery_pb2.DiscoveryRequest(
                type_url=kind.value,
                resource_names=self.names.get(kind, []),
                response_nonce=response.nonce,
                version_info=self.version.get(kind, ""),
                **fields,
            )
        else:
            request = discovery_pb2.DeltaDiscoveryRequest(type_url=kind.value, response_nonce=response.nonce, **fields)
        return self.take(self.stream.on_request(request))

    def push(self, changed: Snapshot) -> list[Any]:
        """Lets the stream see a new snapshot."""
        return self.take(self.stream.on_snapshot(changed))

    def take(self, responses: list[Any]) -> list[Any]:
        """Remembers nonces, as a client does."""
        for response in responses:
            self.nonce[ResourceType(response.type_url)] = response.nonce
        return responses

    def start(self, *clusters: str, door: str = "door") -> None:
        """Subscribes to everything and acknowledges it, as an Envoy does at boot."""
        for kind, names in ((CDS, ()), (EDS, clusters or ("a", "b")), (LDS, ()), (RDS, (door,))):
            for response in self.ask(kind, *names):
                assert self.answer(response) == []


def contents(response: Any) -> set[str]:
    """Returns the names of the resources in a response."""
    if isinstance(response, discovery_pb2.DeltaDiscoveryResponse):
        return {r.name for r in response.resources}
    found = set()
    for packed in response.resources:
        kind = {CDS.value: cluster_pb2.Cluster, EDS.value: endpoint_pb2.ClusterLoadAssignment}.get(response.type_url)
        kind = kind or {LDS.value: listener_pb2.Listener, RDS.value: route_pb2.RouteConfiguration}[response.type_url]
        message = kind()
        packed.Unpack(message)
        found.add(getattr(message, "cluster_name", None) or message.name)
    return found


def kinds(responses: list[Any]) -> list[ResourceType]:
    """Returns the types of responses, in order."""
    return [ResourceType(r.type_url) for r in responses]
