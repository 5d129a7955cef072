"""Rules of ADS that only a real Envoy can confirm: re-warming, refusals, and snapshots that it finds valid."""

import asyncio
import json
from contextlib import asynccontextmanager
from functools import partial

import grpc
import pytest
from envoy.config.listener.v3 import listener_pb2
from envoy.extensions.filters.network.http_connection_manager.v3 import http_connection_manager_pb2
from envoy.service.discovery.v3 import ads_pb2_grpc, discovery_pb2
from google.protobuf.json_format import MessageToDict
from harness.control_plane import KEYS
from harness.envoy import ENVOY, mesh_config, running_envoy
from harness.eventually import eventually
from harness.stub_services import running_stub
from harness.xds import CDS, EDS, LDS, RDS
from tiermesh.mesh.ads import AdsServicer, Subscribers
from tiermesh.mesh.bootstrap import make_bootstrap
from tiermesh.mesh.cache import SnapshotCache
from tiermesh.mesh.snapshot import Snapshot
from tiermesh.mesh.topology import make_snapshot
from tiermesh.shared.endpoints import replica_endpoint
from tiermesh.shared.rpc import Service, open_channel, open_server
from tiermesh.shared.testing import recorded_tracing

pytestmark = pytest.mark.envoy
CHAT = {"model": "auto", "messages": [{"role": "user", "content": "ok"}]}


@pytest.fixture(params=["delta", "sotw"])
def variant(request):
    return request.param


def parts(snapshot):
    names = {CDS: "clusters", EDS: "endpoints", LDS: "listeners", RDS: "routes"}
    return {names[kind]: [r.message for r in snapshot.of_type(kind).values()] for kind in names}


@asynccontextmanager
async def served(config, snapshot):
    cache, subscribers = SnapshotCache(), Subscribers()
    cache.publish({"local": snapshot})
    register = partial(ads_pb2_grpc.add_AggregatedDiscoveryServiceServicer_to_server, AdsServicer(cache, subscribers))
    service = Service("envoy.service.discovery.v3.AggregatedDiscoveryService", register)
    address = f"127.0.0.1:{config.network.xds_port}"
    with recorded_tracing() as tracing:
        async with open_server([service], address=address, tracing=tracing, default_deadline_s=10) as server:
            await server.set_serving(True)
            yield cache, subscribers


async def only(subscribers):
    async def one():
        return list(subscribers)

    (subscriber,) = await eventually(one)
    return subscriber


async def test_a_changed_cluster_warms_at_once_and_serves_meanwhile(tmp_path, variant):
    config = mesh_config(tmp_path)
    snapshot = make_snapshot(config, KEYS, role="local", traces=None)
    async with (
        served(config, snapshot) as (cache, subscribers),
        running_stub(replica_endpoint(config, "router", 0)),
        running_envoy(config, tmp_path, protocol=variant) as envoy,
        envoy.http() as client,
    ):
        await envoy.healthy("router")
        subscriber = await only(subscribers)
        before = subscriber.acknowledged[CDS]
        changed = parts(snapshot)
        for cluster in changed["clusters"]:
            cluster.connect_timeout.FromMilliseconds(1500)
        cache.publish({"local": Snapshot.of(**changed)})

        async def warmed():
            assert (await client.post("/v1/chat/completions", json=CHAT)).status_code == 200
            return subscriber.acknowledged[CDS] != before and await envoy.stat("cluster_manager.warming_clusters") == 0

        # Without its endpoints a cluster would wait 15 s, Envoy's initial_fetch_timeout.
        await eventually(warmed, within_s=14)
        await envoy.healthy("router")
        assert (await client.post("/v1/chat/completions", json=CHAT)).status_code == 200


async def test_a_refused_change_is_noted_parked_and_harms_nothing(tmp_path, variant):
    config = mesh_config(tmp_path)
    snapshot = make_snapshot(config, KEYS, role="local", traces=None)
    async with (
        served(config, snapshot) as (cache, subscribers),
        running_stub(replica_endpoint(config, "router", 0)),
        running_envoy(config, tmp_path, protocol=variant) as envoy,
        envoy.http() as client,
    ):
        await envoy.healthy("router")
        subscriber = await only(subscribers)
        bad = parts(snapshot)
        # Consistent in itself, but a circle of redirects to an unknown filter that only Envoy can judge.
        broken = listener_pb2.Listener(name="broken", address=bad["listeners"][0].address)
        broken.address.socket_address.port_value = config.network.redis_port
        broken.filter_chains.add().filters.add(name="tiermesh.nonesuch")
        bad["listeners"].append(broken)
        cache.publish({"local": Snapshot.of(**bad)})

        async def refused():
            return subscriber.last_error

        assert "nonesuch" in await eventually(refused)
        refusals = await envoy.stat("listener_manager.lds.update_rejected")
        for _ in range(20):
            assert (await client.post("/v1/chat/completions", json=CHAT)).status_code == 200
        # Parked: it was not sent again and again.
        assert await envoy.stat("listener_manager.lds.update_rejected") == refusals == 1
        cache.publish({"local": snapshot})

        async def recovered():
            return subscriber.last_error == ""

        await eventually(recovered)


async def test_a_route_to_an_unknown_cluster_is_refused_by_envoy_too(tmp_path):
    config = mesh_config(tmp_path)
    snapshot = make_snapshot(config, KEYS, role="local", traces=None)
    assert all(r.message.validate_clusters.value for r in snapshot.of_type(RDS).values())
    async with (
        served(config, snapshot) as (cache, subscribers),
        running_envoy(config, tmp_path) as envoy,
    ):
        subscriber = await only(subscribers)
        bad = parts(snapshot)
        bad["routes"][0].virtual_hosts[0].routes[0].route.cluster = "nonesuch"
        # Past our own check, as a defect of it would be.
        cache._snapshots = {"local": Snapshot.of(**bad)}
        for wake in cache._watchers.values():
            wake()

        async def refused():
            return subscriber.last_error

        assert "nonesuch" in await eventually(refused)
        assert envoy.process.returncode is None


async def test_a_stream_without_a_known_node_is_refused_with_the_reason(tmp_path):
    config = mesh_config(tmp_path)
    snapshot = make_snapshot(config, KEYS, role="local", traces=None)
    async with (
        served(config, snapshot) as (_, subscribers),
        open_channel(f"127.0.0.1:{config.network.xds_port}") as channel,
    ):
        stub = ads_pb2_grpc.AggregatedDiscoveryServiceStub(channel)
        for node, reason in (({}, "node.id"), ({"id": "x", "metadata": {"role": "butler"}}, "butler")):
            call = stub.StreamAggregatedResources(timeout=60)
            await call.write(discovery_pb2.DiscoveryRequest(type_url=CDS.value, node=node))
            with pytest.raises(grpc.aio.AioRpcError) as caught:
                async for _ in call:
                    pass
            assert caught.value.code() is grpc.StatusCode.INVALID_ARGUMENT
            assert reason in caught.value.details()
        # The node need not be repeated, and a stream that ends is no longer listed.
        call = stub.StreamAggregatedResources(timeout=60)
        await call.write(discovery_pb2.DiscoveryRequest(type_url=CDS.value, node={"id": "good"}))
        response = await call.read()
        assert [s.node_id for s in subscribers] == ["good"]
        ack = {"version_info": response.version_info, "response_nonce": response.nonce}
        await call.write(discovery_pb2.DiscoveryRequest(type_url=CDS.value, **ack))
        await call.write(discovery_pb2.DiscoveryRequest(type_url=LDS.value))
        assert (await call.read()).type_url == LDS.value
        assert next(iter(subscribers)).acknowledged == {CDS: response.version_info}
        call.cancel()

        async def left():
            return not list(subscribers)

        await eventually(left)


@pytest.mark.parametrize("role", ["local", "ingress", "sidecar"])
@pytest.mark.parametrize("mode", ["local", "dns"])
async def test_envoy_finds_every_snapshot_and_bootstrap_valid(tmp_path, role, mode):
    config = mesh_config(tmp_path, discovery={"mode": mode}, logging={"access": True})
    snapshot = make_snapshot(config, KEYS, role=role, traces="https://collector.example:4317")
    document = make_bootstrap(config, role=role, node_id="check")
    resources = document["static_resources"]
    # What would come over ADS, written into the file. Endpoints and routes go where their owners are.
    for cluster in parts(snapshot)["clusters"]:
        values = MessageToDict(cluster, preserving_proto_field_name=True)
        if values.pop("eds_cluster_config", None):
            values["type"] = "STATIC"
        resources["clusters"].append(values)
    routes = {r.name: r for r in parts(snapshot)["routes"]}
    resources["listeners"] = []
    for listener in parts(snapshot)["listeners"]:
        manager = http_connection_manager_pb2.HttpConnectionManager()
        packed = listener.filter_chains[0].filters[0].typed_config
        assert packed.Unpack(manager)
        manager.route_config.CopyFrom(routes[manager.rds.route_config_name])
        packed.Pack(manager)
        resources["listeners"].append(MessageToDict(listener, preserving_proto_field_name=True))
    path = tmp_path / "check.json"
    path.write_text(json.dumps(document))
    process = await asyncio.create_subprocess_exec(
        *(ENVOY, "--mode", "validate", "--disable-hot-restart", "-c", path),
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
    )
    output, _ = await process.communicate()
    assert process.returncode == 0, output.decode()[-2000:]
