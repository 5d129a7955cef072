"""A server with mutual TLS: whom it lets in, what it shows, and how it takes new certificates."""

from __future__ import annotations

from contextlib import asynccontextmanager
from functools import partial

import grpc
import pytest
from envoy.service.discovery.v3 import ads_pb2_grpc, discovery_pb2
from grpc_health.v1 import health_pb2, health_pb2_grpc
from harness.certificates import Authority, SecretVolume, channel_credentials
from harness.control_plane import KEYS
from harness.tls_mesh import ENGINE, dns_name, names_pem, server_tls
from tiermesh.api.engine.v1 import engine_pb2, engine_pb2_grpc
from tiermesh.mesh.app import wire
from tiermesh.shared.config import parse_config
from tiermesh.shared.endpoints import CONTROL_PLANE, ROUTER
from tiermesh.shared.rpc import Service, error_from_rpc, open_server
from tiermesh.shared.testing import recorded_tracing
from tiermesh.shared.tls import INGRESS, Pem

SERVING = health_pb2.HealthCheckResponse.SERVING
CHECK = health_pb2.HealthCheckRequest()


class Engine(engine_pb2_grpc.EngineServiceServicer):
    async def GetModel(self, request, context):
        return engine_pb2.GetModelResponse(tier="l1")

    async def Generate(self, request, context):
        yield engine_pb2.GenerateResponse(done=engine_pb2.Done())


ENGINE_SERVICE = Service(
    "tiermesh.api.engine.v1.EngineService",
    partial(engine_pb2_grpc.add_EngineServiceServicer_to_server, Engine()),
)


@pytest.fixture(scope="module")
def authority() -> Authority:
    return Authority()


@pytest.fixture
def config(tmp_path):
    return parse_config(
        {
            "tenants": [{"name": "acme", "key_env": "K"}],
            "tiers": [{"name": "l1", "backend": "rules"}],
            "discovery": {"mode": "dns", "dns_suffix": ".localhost"},
        },
        tmp_path / "mesh.yaml",
    )


@asynccontextmanager
async def serving(config, volume, service=ENGINE, services=(ENGINE_SERVICE,), **options):
    tls = server_tls(config, service, volume, **options)
    with recorded_tracing() as tracing:
        async with open_server(
            services, address="127.0.0.1:0", tracing=tracing, default_deadline_s=60, tls=tls
        ) as server:
            await server.set_serving(True)
            yield server


@asynccontextmanager
async def channel(server, pem: Pem | None, *, name: str = dns_name(ENGINE), key: bool = True):
    """Opens a connection of its own, as another process would."""
    target, options = f"127.0.0.1:{server.port}", [("grpc.use_local_subchannel_pool", 1)]
    if pem is None:
        async with grpc.aio.insecure_channel(target, options=options) as opened:
            yield opened
        return
    shown = channel_credentials(pem) if key else grpc.ssl_channel_credentials(pem.trusted_ca)
    named = [*options, ("grpc.ssl_target_name_override", name)]
    async with grpc.aio.secure_channel(target, shown, options=named) as opened:
        yield opened


async def code_of(call) -> grpc.StatusCode:
    with pytest.raises(grpc.aio.AioRpcError) as refused:
        await call
    return refused.value.code()


async def model(opened):
    return await engine_pb2_grpc.EngineServiceStub(opened).GetModel(engine_pb2.GetModelRequest(), timeout=60)


async def health(opened):
    return await health_pb2_grpc.HealthStub(opened).Check(CHECK, timeout=60)


@pytest.fixture
def volume(tmp_path, authority) -> SecretVolume:
    return SecretVolume(tmp_path / "tls", names_pem(authority, ENGINE))


async def test_the_router_is_let_in(config, volume, authority):
    async with serving(config, volume) as server, channel(server, names_pem(authority, ROUTER)) as opened:
        assert (await model(opened)).tier == "l1"
        events = engine_pb2_grpc.EngineServiceStub(opened).Generate(engine_pb2.GenerateRequest(), timeout=60)
        assert [event.WhichOneof("event") async for event in events] == ["done"]
        assert (await health(opened)).status == SERVING


async def test_plain_text_and_strangers_are_refused(config, volume, authority):
    stranger = names_pem(Authority("Another"), ROUTER, trusted=authority.pem)
    async with serving(config, volume) as server:
        for pem, key in ((None, True), (stranger, True), (names_pem(authority, ROUTER), False)):
            async with channel(server, pem, key=key) as opened:
                assert await code_of(model(opened)) is grpc.StatusCode.UNAVAILABLE
                assert await code_of(health(opened)) is grpc.StatusCode.UNAVAILABLE


async def test_a_member_that_may_not_call_may_ask_whether_it_is_well(config, volume, authority):
    async with serving(config, volume) as server, channel(server, names_pem(authority, "cache")) as opened:
        assert (await health(opened)).status == SERVING
        with pytest.raises(grpc.aio.AioRpcError) as refused:
            await model(opened)
        told = error_from_rpc(refused.value)
        assert (refused.value.code(), told.reason) == (grpc.StatusCode.PERMISSION_DENIED, "PEER_FORBIDDEN")
        assert dns_name("cache") in told.message
        assert dns_name(ROUTER) in told.message
        stub = engine_pb2_grpc.EngineServiceStub(opened)
        assert await code_of(anext(aiter(stub.Generate(engine_pb2.GenerateRequest(), timeout=60)))) is (
            grpc.StatusCode.PERMISSION_DENIED
        )


async def test_one_of_the_same_authority_that_is_no_member_may_not_even_ask(config, volume, authority):
    async with serving(config, volume) as server, channel(server, authority.pem_for("web.example")) as opened:
        assert await code_of(health(opened)) is grpc.StatusCode.PERMISSION_DENIED


async def test_kubelets_ask_on_a_port_of_its_own_and_learn_nothing_else(config, volume, unused_tcp_port):
    probed = f"127.0.0.1:{unused_tcp_port}"
    async with serving(config, volume, probe_address=probed) as server, grpc.aio.insecure_channel(probed) as opened:
        assert (await health(opened)).status == SERVING
        assert await code_of(model(opened)) is grpc.StatusCode.UNIMPLEMENTED
        await server.set_serving(False)
        assert (await health(opened)).status == health_pb2.HealthCheckResponse.NOT_SERVING


async def test_new_certificates_are_for_new_connections_and_old_ones_stay(config, volume, authority):
    router = names_pem(authority, ROUTER)
    async with serving(config, volume) as server, channel(server, router) as before:
        assert (await model(before)).tier == "l1"
        # A new authority: whoever trusts the old one alone cannot connect any more.
        other = Authority("The next")
        volume.put(names_pem(other, ENGINE))
        async with channel(server, names_pem(other, ROUTER)) as after:
            assert (await model(after)).tier == "l1"
        async with channel(server, router) as late:
            assert await code_of(model(late)) is grpc.StatusCode.UNAVAILABLE
        assert (await model(before)).tier == "l1"


async def test_an_unusable_new_certificate_changes_nothing(config, volume, authority):
    router = names_pem(authority, ROUTER)
    async with serving(config, volume) as server:
        sound = names_pem(authority, ENGINE)
        volume.put(Pem(sound.certificate, b"half a key", sound.trusted_ca))
        async with channel(server, router) as opened:
            assert (await model(opened)).tier == "l1"


async def test_the_control_plane_tells_keys_to_members_alone(config, tmp_path, authority):
    plane = wire(read_keys=lambda _: KEYS, environ={})
    assert plane.publisher.offer(config)
    volume = SecretVolume(tmp_path / "tls", names_pem(authority, CONTROL_PLANE))

    async def discover(opened):
        request = discovery_pb2.DeltaDiscoveryRequest(type_url="type.googleapis.com/envoy.config.cluster.v3.Cluster")
        request.node.id = "x"
        request.node.metadata["role"] = "sidecar"
        stub = ads_pb2_grpc.AggregatedDiscoveryServiceStub(opened)
        call = stub.DeltaAggregatedResources(iter([request]), timeout=60)
        async for response in call:
            call.cancel()
            return {resource.name for resource in response.resources}
        raise AssertionError("the stream ended without a word")

    named = {"name": dns_name(CONTROL_PLANE)}
    async with serving(config, volume, CONTROL_PLANE, plane.services) as server:
        for member in (INGRESS, ROUTER, "classifier", ENGINE):
            async with channel(server, names_pem(authority, member), **named) as opened:
                assert ROUTER in await discover(opened)
        async with channel(server, names_pem(authority, ROUTER), key=False, **named) as opened:
            assert await code_of(discover(opened)) is grpc.StatusCode.UNAVAILABLE
        async with channel(server, None) as opened:
            assert await code_of(discover(opened)) is grpc.StatusCode.UNAVAILABLE
        async with channel(server, authority.pem_for("web.example"), **named) as opened:
            assert await code_of(discover(opened)) is grpc.StatusCode.PERMISSION_DENIED
