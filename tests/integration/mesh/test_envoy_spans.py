"""Envoy's own spans, received by a real OTLP receiver: one tree with the caller's trace id."""

import pytest
from harness.control_plane import running_control_plane
from harness.envoy import mesh_config, running_envoy
from harness.otlp import OtlpReceiver, orphans, running_otlp
from harness.stub_services import running_stub
from tiermesh.api.engine.v1 import engine_pb2, engine_pb2_grpc
from tiermesh.shared.endpoints import mesh_target, replica_endpoint
from tiermesh.shared.rpc import open_channel

pytestmark = pytest.mark.envoy
TRACE, PARENT = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"
CHAT = {"model": "auto", "messages": [{"role": "user", "content": "ok"}]}
SERVER, CLIENT = 2, 3


async def test_ingress_and_mesh_spans_form_one_tree_with_the_callers_id(tmp_path):
    config = mesh_config(tmp_path)
    async with (
        running_otlp(port=config.network.traces_port) as otlp,
        running_stub(replica_endpoint(config, "router", 0)) as router,
        running_control_plane(config),
        running_envoy(config, tmp_path) as envoy,
        envoy.http() as client,
        open_channel(mesh_target(config), authority="router") as channel,
    ):
        await envoy.healthy("router")
        header = {"traceparent": f"00-{TRACE}-{PARENT}-01"}
        await client.post("/v1/chat/completions", json=CHAT, headers=header)
        # What the router would do next: call on, with the context that it was given.
        carried = router.seen.metadata[-1]["traceparent"]
        call = engine_pb2_grpc.EngineServiceStub(channel).Generate(
            engine_pb2.GenerateRequest(), metadata=(("traceparent", carried),)
        )
        assert [event async for event in call]
        receiver = otlp.receiver

        def complete() -> bool:
            spans = receiver.of_trace(TRACE)
            both = {s.service for s in spans} >= {"tiermesh-envoy-ingress", "tiermesh-envoy-mesh"}
            return both and not orphans(spans, outside=[PARENT])

        await receiver.until(complete)
        spans = receiver.of_trace(TRACE)
        ingress = next(s for s in spans if s.service == "tiermesh-envoy-ingress")
        mesh = next(s for s in spans if s.service == "tiermesh-envoy-mesh")
        assert ingress.parent_span_id == PARENT
        assert mesh.parent_span_id == carried.split("-")[2]
        assert (ingress.kind, mesh.kind) == (SERVER, CLIENT)
        assert ingress.attributes["tiermesh.tenant"] == "acme"
        assert router.seen.metadata[-1]["traceparent"].split("-")[2] == mesh.span_id


async def test_a_caller_who_does_not_sample_is_obeyed(tmp_path):
    config = mesh_config(tmp_path)
    async with (
        running_otlp(port=config.network.traces_port) as otlp,
        running_stub(replica_endpoint(config, "router", 0)) as router,
        running_control_plane(config),
        running_envoy(config, tmp_path) as envoy,
        envoy.http() as client,
    ):
        await envoy.healthy("router")
        await client.get("/v1/models", headers={"traceparent": f"00-{TRACE}-{PARENT}-00"})
        assert router.seen.metadata[-1]["traceparent"].split("-")[1::2] == [TRACE, "00"]
        await client.get("/v1/models", headers={"traceparent": f"00-{'f' * 32}-{PARENT}-01"})
        await otlp.receiver.until(lambda: otlp.receiver.of_trace("f" * 32))
        assert otlp.receiver.of_trace(TRACE) == []


async def test_a_receiver_that_hangs_or_is_gone_slows_nothing(tmp_path):
    config = mesh_config(tmp_path)
    receiver = OtlpReceiver()
    receiver.answering.clear()
    async with (
        running_stub(replica_endpoint(config, "router", 0)),
        running_control_plane(config),
        running_envoy(config, tmp_path) as envoy,
        envoy.http() as client,
    ):
        await envoy.healthy("router")
        for _ in range(20):
            assert (await client.get("/v1/models")).elapsed.total_seconds() < 10
        async with running_otlp(port=config.network.traces_port, receiver=receiver):
            # Until it has been asked, and hangs.
            while not receiver.calls:
                assert (await client.get("/v1/models")).elapsed.total_seconds() < 10
            for _ in range(20):
                assert (await client.get("/v1/models")).elapsed.total_seconds() < 10
