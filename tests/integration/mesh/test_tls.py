"""Mutual TLS with a real Envoy and real certificates."""

from __future__ import annotations

import asyncio
import ssl
from contextlib import asynccontextmanager

import grpc
import httpx
import pytest
from cryptography import x509
from harness.certificates import Authority
from harness.envoy import KEY
from harness.eventually import eventually
from harness.tls_mesh import ENGINE, PUBLIC_NAME, SERVICES, names_pem, running_tls_mesh
from tiermesh.api.common.v1 import chat_pb2
from tiermesh.api.engine.v1 import engine_pb2, engine_pb2_grpc
from tiermesh.shared.endpoints import CONTROL_PLANE, ROUTER, mesh_target
from tiermesh.shared.headers import BATCH, PRIORITY
from tiermesh.shared.rpc import error_from_rpc, open_channel
from tiermesh.shared.tls import INGRESS

pytestmark = pytest.mark.envoy

CHAT = {"model": "auto", "messages": [{"role": "user", "content": "ok"}]}


@pytest.fixture(scope="module")
def authority() -> Authority:
    return Authority()


def client(mesh, authority, **options):
    headers = {"authorization": f"Bearer {KEY}"}
    url = f"https://{PUBLIC_NAME}:{mesh.config.network.ingress_port}"
    return httpx.AsyncClient(base_url=url, verify=authority.client_context(), headers=headers, timeout=60, **options)


@asynccontextmanager
async def engine_through(mesh):
    async with open_channel(mesh_target(mesh.config), authority=ENGINE) as channel:
        yield engine_pb2_grpc.EngineServiceStub(channel)


async def generate(stub, text="ok", metadata=()):
    request = engine_pb2.GenerateRequest(messages=[chat_pb2.Message(role=chat_pb2.ROLE_USER, content=text)])
    return [event.WhichOneof("event") async for event in stub.Generate(request, timeout=60, metadata=metadata)]


async def shown_by_the_ingress(mesh, authority, *protocols) -> tuple[int, str | None]:
    """Returns the serial number of the public certificate, and the protocol agreed on."""
    context = authority.client_context()
    context.set_alpn_protocols(protocols)
    _, writer = await asyncio.open_connection(
        "127.0.0.1", mesh.config.network.ingress_port, ssl=context, server_hostname=PUBLIC_NAME
    )
    found: ssl.SSLObject = writer.get_extra_info("ssl_object")
    certificate = x509.load_der_x509_certificate(found.getpeercert(binary_form=True) or b"")
    agreed = found.selected_alpn_protocol()
    writer.close()
    return certificate.serial_number, agreed


async def test_everything_is_tls_from_the_caller_to_the_service(authority, tmp_path):
    async with running_tls_mesh(tmp_path, authority) as mesh, engine_through(mesh) as engine:
        async with client(mesh, authority) as http:
            answer = await http.post("/v1/chat/completions", json=CHAT)
            assert (answer.status_code, answer.json()["ok"]) == (200, True)
        assert await generate(engine) == ["delta", "done"]
        for cluster in (ROUTER, ENGINE, "xds"):
            assert await mesh.envoy.stat(f"cluster.{cluster}.ssl.versions.TLSv1.3") > 0
        assert (await shown_by_the_ingress(mesh, authority, "h2", "http/1.1"))[1] == "h2"
        assert (await shown_by_the_ingress(mesh, authority, "http/1.1"))[1] == "http/1.1"

        # In plain text, neither the door nor the service says anything.
        for port in (mesh.config.network.ingress_port, mesh.config.discovery.service_port):
            async with httpx.AsyncClient(base_url=f"http://127.0.0.1:{port}", timeout=60) as plain:
                with pytest.raises(httpx.TransportError):
                    await plain.get("/healthz")

        # What Envoy shows of itself holds no private key.
        shown = (await mesh.envoy.admin("/config_dump?include_eds")).text + (await mesh.envoy.admin("/certs")).text
        assert "own-certificate" in shown
        for volume in (mesh.volumes.envoy, mesh.volumes.public):
            assert volume.folder.joinpath("tls.key").read_text().splitlines()[1] not in shown
        assert 0 < await mesh.envoy.stat("server.days_until_first_cert_expiring") <= 90


@pytest.mark.parametrize("what", ["of another service", "of another authority"])
async def test_envoy_sends_nothing_to_a_service_with_a_certificate(authority, tmp_path, what):
    wrong = names_pem(authority, CONTROL_PLANE)
    if what == "of another authority":
        wrong = names_pem(Authority("Another"), *SERVICES, trusted=authority.pem)
    async with running_tls_mesh(tmp_path, authority, service=wrong, wait=False) as mesh, engine_through(mesh) as engine:

        async def refused() -> bool:
            failed = ("fail_verify_san", "fail_verify_error")
            return sum([await mesh.envoy.stat(f"cluster.{ENGINE}.ssl.{name}") for name in failed]) > 0

        await eventually(refused)
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            await generate(engine)
        assert caught.value.code() is grpc.StatusCode.UNAVAILABLE
        assert mesh.stub.seen.calls == []


async def test_a_service_refuses_an_envoy_of_another_service(authority, tmp_path):
    cache = names_pem(authority, "cache")
    async with running_tls_mesh(tmp_path, authority, envoy=cache) as mesh, engine_through(mesh) as engine:
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            await generate(engine)
        assert error_from_rpc(caught.value).reason == "PEER_FORBIDDEN"
        assert mesh.stub.seen.calls == []


async def test_certificates_rotate_while_requests_are_under_way_and_none_is_lost(authority, tmp_path):
    following = Authority("The next")
    both = authority.pem + following.pem
    async with (
        running_tls_mesh(tmp_path, authority) as mesh,
        engine_through(mesh) as engine,
        client(mesh, authority) as http,
    ):
        over, statuses, count = asyncio.Event(), set(), 0

        async def ask_over_and_over() -> None:
            nonlocal count
            while not over.is_set():
                # A new connection each time: its handshake is what could fail.
                statuses.add(
                    (await http.post("/v1/chat/completions", json=CHAT, headers={"connection": "close"})).status_code
                )
                statuses.add(tuple(await generate(engine)))
                count += 1

        async def asked(more: int = 3) -> None:
            before = count
            await eventually(lambda: asyncio.sleep(0, count >= before + more))

        async def turn(volume, pem, *updates: str) -> None:
            """Replaces a volume's files, and waits until Envoy has taken them, where it is Envoy that reads them."""
            before = [await mesh.envoy.stat(name) for name in updates]
            volume.put(pem)
            for name, count in zip(updates, before, strict=True):
                await eventually(lambda name=name, count=count: _more(name, count))
            await asked()

        async def _more(name: str, count: int) -> bool:
            return await mesh.envoy.stat(name) > count

        context_updates = f"cluster.{ENGINE}.client_ssl_socket_factory.ssl_context_update_by_sds"
        long = asyncio.create_task(generate(engine, "hang"))
        await mesh.stub.seen.started.wait()
        asking = asyncio.create_task(ask_over_and_over())
        try:
            await asked()
            # As an operator changes authorities: everyone trusts both, everyone shows the new one, nobody trusts the old.
            for trusted, issuer in ((both, authority), (both, following), (following.pem, following)):
                await turn(mesh.volumes.service, names_pem(issuer, *SERVICES, trusted=trusted))
                await turn(mesh.volumes.control, names_pem(issuer, CONTROL_PLANE, trusted=trusted))
                await turn(mesh.volumes.envoy, names_pem(issuer, INGRESS, ROUTER, trusted=trusted), context_updates)
            before = (await shown_by_the_ingress(mesh, authority))[0]
            public = authority.pem_for(PUBLIC_NAME)
            mesh.volumes.public.put(public)

            async def shows_the_new_one() -> bool:
                return (await shown_by_the_ingress(mesh, authority))[0] != before

            await eventually(shows_the_new_one)
            await asked()
        finally:
            over.set()
            await asking
        assert statuses == {200, ("delta", "done")}
        # Begun before all of it, on a connection that is still the one of then.
        mesh.stub.seen.release.set()
        assert await long == ["delta", "done"]
        # Batch work has connections of its own, and this is its first: only the new authority can make it.
        connections = await mesh.envoy.stat(f"cluster.{ENGINE}.upstream_cx_total")
        assert await generate(engine, metadata=((PRIORITY, BATCH),)) == ["delta", "done"]
        assert await mesh.envoy.stat(f"cluster.{ENGINE}.upstream_cx_total") > connections
