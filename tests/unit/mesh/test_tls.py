"""TLS in what Envoys are given: contexts that name files, and never what is in them."""

from pathlib import Path

import pytest
from envoy.extensions.transport_sockets.tls.v3 import common_pb2, secret_pb2, tls_pb2
from google.protobuf.json_format import ParseDict
from harness.xds import CDS, LDS
from tiermesh.mesh.api_keys import ApiKeys
from tiermesh.mesh.bootstrap import make_bootstrap
from tiermesh.mesh.sds import make_secrets
from tiermesh.mesh.topology import make_snapshot, make_snapshots
from tiermesh.shared.config import parse_config

KEYS = ApiKeys({"acme": ("key-one-1234",)})
OWN = {"certificate": "/tls/own/tls.crt", "private_key": "/tls/own/tls.key", "trusted_ca": "/tls/ca/ca.crt"}
PUBLIC = {"enabled": True, "certificate": "/tls/public/tls.crt", "private_key": "/tls/public/tls.key"}


def config(**tls):
    values = {
        "tenants": [{"name": "acme", "key_env": "K"}],
        "tiers": [{"name": "l1", "backend": "rules"}],
        "discovery": {"mode": "dns", "dns_prefix": "t-", "dns_suffix": ".svc"},
        "tls": {**OWN, **tls},
    }
    return parse_config(values, Path("/etc/mesh.yaml"))


def upstream(cluster) -> tls_pb2.UpstreamTlsContext:
    found = tls_pb2.UpstreamTlsContext()
    assert cluster.transport_socket.typed_config.Unpack(found)
    return found


def test_off_means_off():
    for snapshot in make_snapshots(config(), KEYS, {}).values():
        assert not any(c.message.HasField("transport_socket") for c in snapshot.of_type(CDS).values())
        assert not any(
            chain.HasField("transport_socket")
            for listener in snapshot.of_type(LDS).values()
            for chain in listener.message.filter_chains
        )
    assert "transport_socket" not in make_bootstrap(config())["static_resources"]["clusters"][0]
    assert make_secrets(config(), "ingress") == {}


@pytest.mark.parametrize(
    ("identity", "kind", "name"),
    [("", "DNS", "t-engine-l1.svc"), ("spiffe://mesh/{service}", "URI", "spiffe://mesh/engine-l1")],
)
def test_each_cluster_expects_its_own_service_and_shows_who_it_is(identity, kind, name):
    snapshot = make_snapshot(config(mesh=True, identity=identity), KEYS, role="sidecar", traces="http://c:4317")
    tls = upstream(snapshot.of_type(CDS)["engine-l1"].message)
    common = tls.common_tls_context
    (san,) = common.combined_validation_context.default_validation_context.match_typed_subject_alt_names
    assert (san.SanType.Name(san.san_type), san.matcher.exact) == (kind, name)
    assert tls.sni == ("" if kind == "URI" else name)
    assert list(common.alpn_protocols) == ["h2"]
    assert common.tls_params.tls_minimum_protocol_version == common_pb2.TlsParameters.TLSv1_3
    (own,) = common.tls_certificate_sds_secret_configs
    authorities = common.combined_validation_context.validation_context_sds_secret_config
    assert own.sds_config.path_config_source.path == "/etc/envoy/own-certificate.yaml"
    assert authorities.sds_config.path_config_source.path == "/etc/envoy/authorities.yaml"
    # The collector is no member of the mesh.
    assert not snapshot.of_type(CDS)["traces"].message.HasField("transport_socket")


def test_each_part_has_a_switch_of_its_own():
    for tls, mesh, door, control in (
        (config(mesh=True), True, False, False),
        (config(ingress=PUBLIC), False, True, False),
        (config(control_plane=True), False, False, True),
    ):
        snapshot = make_snapshot(tls, KEYS, role="ingress", traces=None)
        assert snapshot.of_type(CDS)["router"].message.HasField("transport_socket") is mesh
        (chain,) = snapshot.of_type(LDS)["ingress"].message.filter_chains
        assert chain.HasField("transport_socket") is door
        xds = make_bootstrap(tls, role="ingress")["static_resources"]["clusters"][0]
        assert ("transport_socket" in xds) is control
        assert (set(make_secrets(tls, "ingress")) == {"ingress-certificate"}) is door


def test_the_listener_between_a_service_and_its_sidecar_stays_plain():
    snapshot = make_snapshot(config(mesh=True, control_plane=True), KEYS, role="sidecar", traces=None)
    listener = snapshot.of_type(LDS)["mesh"].message
    assert listener.address.socket_address.address == "127.0.0.1"
    assert not listener.filter_chains[0].HasField("transport_socket")


@pytest.mark.parametrize("version", ["1.2", "1.3"])
def test_callers_show_no_certificate_and_may_speak_http_1_or_2(version):
    ingress = {**PUBLIC, "minimum_version": version}
    snapshot = make_snapshot(config(ingress=ingress), KEYS, role="ingress", traces=None)
    tls = tls_pb2.DownstreamTlsContext()
    assert snapshot.of_type(LDS)["ingress"].message.filter_chains[0].transport_socket.typed_config.Unpack(tls)
    assert not tls.require_client_certificate.value
    assert list(tls.common_tls_context.alpn_protocols) == ["h2", "http/1.1"]
    oldest = tls.common_tls_context.tls_params.tls_minimum_protocol_version
    assert common_pb2.TlsParameters.TlsProtocol.Name(oldest) == f"TLSv{version.replace('.', '_')}"


def test_secrets_name_files_and_watch_their_folders():
    everything = config(mesh=True, control_plane=True, ingress=PUBLIC)
    assert set(make_secrets(everything, "sidecar")) == {"own-certificate", "authorities"}
    found = {}
    for name, document in make_secrets(everything, "ingress").items():
        (resource,) = document["resources"]
        found[name] = ParseDict({k: v for k, v in resource.items() if k != "@type"}, secret_pb2.Secret())
        assert found[name].name == name
    own, public = found["own-certificate"].tls_certificate, found["ingress-certificate"].tls_certificate
    assert own.certificate_chain.filename == "/tls/own/tls.crt"
    assert own.private_key.filename == "/tls/own/tls.key"
    assert own.watched_directory.path == "/tls/own"
    assert public.watched_directory.path == "/tls/public"
    authorities = found["authorities"].validation_context
    assert (authorities.trusted_ca.filename, authorities.watched_directory.path) == ("/tls/ca/ca.crt", "/tls/ca")
