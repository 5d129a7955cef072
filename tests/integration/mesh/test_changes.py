"""The configuration changes under traffic: a real Envoy, both variants of ADS."""

from functools import partial

import httpx
import pytest
from harness.control_plane import running_control_plane
from harness.envoy import KEY, mesh_config, running_envoy
from harness.eventually import eventually
from harness.stub_services import running_stub
from harness.traffic import steady_traffic
from tiermesh.api.common.v1 import chat_pb2
from tiermesh.api.engine.v1 import engine_pb2, engine_pb2_grpc
from tiermesh.mesh.api_keys import ApiKeys
from tiermesh.shared.config import ConfigError
from tiermesh.shared.endpoints import engine_cluster, mesh_target, replica_endpoint
from tiermesh.shared.rpc import open_channel

pytestmark = pytest.mark.envoy
CHAT = {"model": "auto", "messages": [{"role": "user", "content": "ok"}]}


@pytest.fixture(params=["delta", "sotw"])
def variant(request):
    return request.param


def prompt(text="ok"):
    return engine_pb2.GenerateRequest(messages=[chat_pb2.Message(role=chat_pb2.ROLE_USER, content=text)])


def engine_channel(plane, tier="l1"):
    return open_channel(mesh_target(plane.config), authority=engine_cluster(tier))


def changed(config, **sections):
    return config.model_validate({**config.model_dump(), **sections})


def tiers(*names, replicas=1):
    return [{"name": name, "backend": "rules", "replicas": replicas} for name in names]


async def acknowledged(plane, kind, before):
    """Waits until Envoy has acknowledged another version of a type than `before`; returns it."""

    async def newer():
        (subscriber,) = (await plane.control.status()).subscribers
        assert subscriber.last_error == ""
        version = subscriber.acknowledged_versions.get(kind, "")
        return version if version not in ("", before) else None

    return await eventually(newer)


async def version_of(plane, kind):
    """Returns the version that Envoy has acknowledged, once it has one: its acknowledgement may be on its way."""

    async def some():
        (subscriber,) = (await plane.control.status()).subscribers
        return subscriber.acknowledged_versions.get(kind)

    return await eventually(some)


async def everything(control):
    """Returns the versions of all types that the only Envoy has acknowledged, or None while one is missing."""
    versions = [dict(s.acknowledged_versions) for s in (await control.status()).subscribers]
    return versions[0] if versions and len(versions[0]) == 4 else None


async def test_replicas_come_and_go_without_failing_a_stream_in_flight(data_plane, variant):
    async with data_plane(protocol=variant) as plane, engine_channel(plane) as channel:
        stub = engine_pb2_grpc.EngineServiceStub(channel)
        async with running_stub(replica_endpoint(plane.config, engine_cluster("l1"), 1)) as second:
            assert second.seen.calls == []
            plane.control.publish(changed(plane.config, tiers=tiers("l1", replicas=2)))
            await plane.envoy.healthy("engine-l1", 2)
            # A stream on the replica that is to go: the other one takes none for the moment.
            await plane.engine.server.set_serving(False)
            await plane.envoy.healthy("engine-l1", 1)
            call = stub.Generate(prompt("hang"))
            assert (await call.read()).delta.text == "one"
            await plane.engine.server.set_serving(True)
            await plane.envoy.healthy("engine-l1", 2)
            plane.control.publish(plane.config)

            async def gone():
                return await plane.envoy.stat("cluster.engine-l1.membership_total") == 1

            await eventually(gone)
            for _ in range(4):
                assert [e.WhichOneof("event") async for e in stub.Generate(prompt())] == ["delta", "done"]
            assert second.seen.calls == ["hang"]
            second.seen.release.set()
            assert (await call.read()).WhichOneof("event") == "done"


async def test_a_new_tier_is_routed_to_and_an_old_one_is_not(data_plane, variant):
    async with data_plane(protocol=variant) as plane, engine_channel(plane) as channel:
        held = engine_pb2_grpc.EngineServiceStub(channel).Generate(prompt("hang"))
        await held.read()
        grown = changed(plane.config, tiers=tiers("l1", "l2"))
        async with (
            running_stub(replica_endpoint(grown, engine_cluster("l2"), 0)) as second,
            engine_channel(plane, "l2") as new_channel,
        ):
            before = await version_of(plane, "routes")
            plane.control.publish(grown)
            await plane.envoy.healthy("engine-l2")
            await acknowledged(plane, "routes", before)
            new = engine_pb2_grpc.EngineServiceStub(new_channel)
            assert [e.WhichOneof("event") async for e in new.Generate(prompt())] == ["delta", "done"]
            assert second.seen.calls == ["ok"]
            plane.control.publish(plane.config)

            async def gone():
                return await plane.envoy.stat("cluster_manager.active_clusters") == 6

            await eventually(gone)
            # And again: a cluster that comes back warms up like a new one.
            plane.control.publish(grown)
            await plane.envoy.healthy("engine-l2")
        plane.engine.seen.release.set()
        assert (await held.read()).WhichOneof("event") == "done"


async def test_routes_listeners_and_keys_change_without_failing_a_request(data_plane, variant):
    async with data_plane(protocol=variant) as plane, plane.envoy.http() as client:

        async def send():
            try:
                answer = await client.post("/v1/chat/completions", json=CHAT)
            except httpx.HTTPError as error:
                return repr(error)
            return None if answer.status_code == 200 else answer.text

        async with client.stream(
            "POST",
            "/v1/chat/completions",
            json={"stream": True, "messages": [{"role": "user", "content": "stream-hang"}]},
        ) as held:
            lines = held.aiter_lines()
            assert await anext(lines) == 'data: {"text": "a"}'
            async with steady_traffic(send) as traffic:
                for kinds, sections in (
                    (["routes"], {"deadlines": {"default_ms": 61_234, "max_ms": 90_000}}),
                    (["listener", "routes"], {"limits": {"max_request_bytes": 12_345}}),
                ):
                    before = {kind: await version_of(plane, kind) for kind in kinds}
                    plane.control.publish(changed(plane.config, **sections))
                    for kind in kinds:
                        await acknowledged(plane, kind, before[kind])
                    await traffic.more()
            assert traffic.failures == []
            plane.router.seen.release.set()
            assert [line async for line in lines if line][-1] == "data: [DONE]"
        too_large = await client.post("/v1/chat/completions", json={**CHAT, "user": "x" * 20_000})
        assert too_large.status_code == 413


async def test_an_invalid_change_is_refused_and_the_last_good_keeps_serving(data_plane):
    async with data_plane() as plane, plane.envoy.http() as client:
        before = await plane.control.status()
        publisher = plane.control.plane.publisher
        moved = plane.config.network.model_copy(update={"ingress_port": plane.config.network.ingress_port + 1})
        for offer, reason in (
            (ConfigError("mesh.yaml: tiers.0.replicas: too many"), "tiers.0.replicas"),
            (plane.config.model_copy(update={"network": moved}), "network.ingress_port"),
        ):
            assert not publisher.offer(offer)
            status = await plane.control.status()
            assert reason in status.rejection
            assert status.config_version == before.config_version
            assert (await client.post("/v1/chat/completions", json=CHAT)).status_code == 200
        assert publisher.offer(plane.config)
        assert (await plane.control.status()).rejection == ""


async def test_roles_get_their_own_doors(tmp_path):
    config = mesh_config(tmp_path)
    other = config.model_copy(
        update={"network": config.network.model_copy(update={"admin_port": config.network.admin_port + 6})}
    )
    async with (
        running_stub(replica_endpoint(config, "router", 0)) as router,
        running_control_plane(config) as control,
        running_envoy(config, tmp_path, role="ingress") as ingress,
        running_envoy(other, tmp_path, role="sidecar") as sidecar,
    ):
        await ingress.healthy("router")
        await sidecar.healthy("router")
        assert await ingress.stat("cluster_manager.active_clusters") == 3
        async with ingress.http() as client:
            assert (await client.post("/v1/chat/completions", json=CHAT)).status_code == 200
        async with open_channel(mesh_target(config), authority="router") as channel:
            stub = engine_pb2_grpc.EngineServiceStub(channel)
            assert [e.WhichOneof("event") async for e in stub.Generate(prompt())] == ["delta", "done"]
        assert len(router.seen.calls) == 2
        assert {s.node_id for s in (await control.status()).subscribers} == {"ingress", "sidecar"}


async def test_a_key_taken_away_stops_working_and_a_new_one_works(tmp_path):
    config = mesh_config(tmp_path)
    keys = {"acme": (KEY,), "globex": ("another-key-1",)}
    async with (
        running_stub(replica_endpoint(config, "router", 0)),
        running_control_plane(config, keys=ApiKeys(keys)) as control,
        running_envoy(config, tmp_path) as envoy,
        envoy.http() as old,
        envoy.http("a-brand-new-key") as new,
    ):
        await envoy.healthy("router")
        assert (await old.get("/v1/models")).status_code == 200
        assert (await new.get("/v1/models")).status_code == 401
        keys["acme"] = ("a-brand-new-key",)
        assert control.plane.publisher.refresh()

        async def swapped():
            return (await new.get("/v1/models")).status_code == 200

        await eventually(swapped)
        assert (await old.get("/v1/models")).status_code == 401


async def test_the_control_plane_goes_and_comes_back_under_traffic(tmp_path, variant):
    config = mesh_config(tmp_path)
    async with running_stub(replica_endpoint(config, "router", 0)):
        async with running_control_plane(config) as first:
            envoy_context = running_envoy(config, tmp_path, protocol=variant)
            envoy = await envoy_context.__aenter__()
            await envoy.healthy("router")
            before = await eventually(partial(everything, first))
        try:
            async with envoy.http() as client:

                async def send():
                    answer = await client.post("/v1/chat/completions", json=CHAT)
                    return None if answer.status_code == 200 else answer.text

                async with steady_traffic(send) as traffic:
                    async with running_control_plane(config) as second:
                        again = await eventually(partial(everything, second))
                        await traffic.more()
                        # The same content has the same versions, so that nothing warms up anew.
                        assert again == before
                        second.publish(changed(config, deadlines={"default_ms": 77_777}))

                        async def arrived():
                            return "77.777s" in (await envoy.admin("/config_dump?resource=dynamic_route_configs")).text

                        await eventually(arrived)
                    await traffic.more()
                assert traffic.failures == []
        finally:
            await envoy_context.__aexit__(None, None, None)


async def test_an_envoy_that_was_first_finds_a_control_plane_that_comes_later(tmp_path, variant):
    config = mesh_config(tmp_path)
    async with (
        running_stub(replica_endpoint(config, "router", 0)),
        running_envoy(config, tmp_path, protocol=variant, wait=False) as envoy,
    ):

        async def up():
            try:
                return (await envoy.admin("/server_info")).json()
            except httpx.TransportError:
                return None

        await eventually(up)
        async with running_control_plane(config), envoy.http() as client:
            await envoy.healthy("router")

            async def serves():
                try:
                    return (await client.post("/v1/chat/completions", json=CHAT)).status_code == 200
                except httpx.TransportError:
                    return False

            await eventually(serves)
