"""Who is who, and who may call whom."""

from pathlib import Path

import grpc
import pytest
from tiermesh.shared.config import ConfigError, parse_config
from tiermesh.shared.errors import PeerForbidden
from tiermesh.shared.rpc import ServerTls
from tiermesh.shared.tls import Identity, Pem, callers_of, identity_of, members_of

FILES = {"certificate": "tls/tls.crt", "private_key": "tls/tls.key", "trusted_ca": "ca/ca.crt"}
DNS = {"mode": "dns", "dns_prefix": "t-", "dns_suffix": ".ns.svc.cluster.local"}


def config(*, discovery=DNS, **tls):
    return parse_config(
        {
            "tenants": [{"name": "acme", "key_env": "K"}],
            "tiers": [{"name": "l1", "backend": "rules"}],
            "outcomes": {"enabled": True},
            "discovery": discovery,
            "tls": tls,
        },
        Path("/etc/tiermesh/mesh.yaml"),
    )


def test_files_are_relative_to_the_configuration():
    ingress = {"enabled": True, "certificate": "../public/tls.crt", "private_key": "../public/tls.key"}
    tls = config(mesh=True, **FILES, ingress=ingress).tls
    assert str(tls.certificate) == "/etc/tiermesh/tls/tls.crt"
    assert str(tls.trusted_ca) == "/etc/tiermesh/ca/ca.crt"
    assert str(tls.ingress.certificate) == "/etc/tiermesh/../public/tls.crt"


@pytest.mark.parametrize(
    ("tls", "says"),
    [
        ({"mesh": True}, "mesh: true needs certificate, private_key, trusted_ca"),
        ({"control_plane": True, **FILES, "trusted_ca": None}, "control_plane: true needs trusted_ca"),
        ({**FILES, "private_key": "elsewhere/tls.key"}, "must be in one folder"),
        ({"ingress": {"enabled": True, "certificate": "a"}}, "enabled: true needs private_key"),
        ({"identity": "router"}, "tls.identity"),
        ({"ingress": {"minimum_version": "1.1"}}, "tls.ingress.minimum_version"),
    ],
)
def test_what_cannot_work_is_refused_with_the_key(tls, says):
    with pytest.raises(ConfigError) as caught:
        config(**tls)
    assert says in str(caught.value)


@pytest.mark.parametrize("on", ["mesh", "control_plane"])
def test_on_one_machine_it_stays_off(on):
    with pytest.raises(ConfigError, match=rf"tls\.{on}: needs discovery\.mode: dns"):
        config(discovery={"mode": "local"}, **{on: True}, **FILES)


def test_the_ingress_of_one_machine_has_none_either():
    ingress = {"enabled": True, "certificate": "a/tls.crt", "private_key": "a/tls.key"}
    with pytest.raises(ConfigError, match=r"tls\.ingress\.enabled: needs discovery.* let a proxy end TLS"):
        config(discovery={"mode": "local"}, ingress=ingress)


def test_a_service_is_its_dns_name_unless_told_otherwise():
    assert identity_of(config(), "engine-l1") == Identity("dns", "t-engine-l1.ns.svc.cluster.local")
    spiffe = config(identity="spiffe://cluster.local/ns/ns/sa/{service}")
    assert identity_of(spiffe, "mesh") == Identity("uri", "spiffe://cluster.local/ns/ns/sa/mesh")
    assert identity_of(config(identity="{service}.mesh.example"), "cache") == Identity("dns", "cache.mesh.example")


def test_who_may_call_whom():
    mesh = config(identity="{service}")
    services = {"classifier", "cache", "outcomes", "engine-l1"}
    assert set(callers_of(mesh, "router").values()) == {"ingress"}
    for service in services:
        assert set(callers_of(mesh, service).values()) == {"router"}
    assert set(callers_of(mesh, "mesh").values()) == {"ingress", "router", *services}
    assert set(members_of(mesh).values()) == {"ingress", "mesh", "router", *services}


class Context:
    """What gRPC knows of a connection."""

    def __init__(self, **names: list[bytes]) -> None:
        self._names = names

    def auth_context(self):
        return self._names


@pytest.fixture
def engine():
    mesh = config(identity="spiffe://x/{service}")
    return ServerTls(lambda: Pem(b"", b"", b""), callers_of(mesh, "engine-l1"), members_of(mesh))


GENERATE, CHECK = "/tiermesh.api.engine.v1.EngineService/Generate", "/grpc.health.v1.Health/Check"


def test_an_engine_admits_the_router_and_tells_every_member_that_it_is_well(engine):
    engine.admit(GENERATE, Context(peer_uri=[b"spiffe://x/router"], peer_dns=[b"whatever"]))
    for member in (b"spiffe://x/router", b"spiffe://x/ingress", b"spiffe://x/cache"):
        engine.admit(CHECK, Context(peer_uri=[member]))
        engine.admit("/xds.service.orca.v3.OpenRcaService/StreamCoreMetrics", Context(peer_uri=[member]))


@pytest.mark.parametrize(
    ("method", "names"),
    [
        (GENERATE, {"peer_uri": [b"spiffe://x/cache"]}),
        (GENERATE, {"peer_dns": [b"spiffe://x/router"]}),
        (GENERATE, {}),
        (CHECK, {"peer_uri": [b"spiffe://other/router"]}),
        ("/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo", {"peer_uri": [b"spiffe://x/cache"]}),
        ("/grpc.health.v1.HealthX/Check", {"peer_uri": [b"spiffe://x/cache"]}),
    ],
)
def test_an_engine_refuses_everybody_else(engine, method, names):
    with pytest.raises(PeerForbidden) as refused:
        engine.admit(method, Context(**names))
    assert refused.value.row.status is grpc.StatusCode.PERMISSION_DENIED
    assert method in refused.value.message
