"""Ports are looked at before anything is started, and a busy one is named."""

import os
import socket
from pathlib import Path

import pytest
from harness.local_plan import config_of, plan
from tiermesh.mesh.local.errors import LocalError
from tiermesh.mesh.local.ports import check_ports, find_conflicts, overrides_from, ports_of, why_unusable
from tiermesh.shared.config import load_config

PROFILE = Path(__file__).parents[3] / "mesh" / "profiles" / "lite.yaml"


def uses(**changes):
    return ports_of(config_of(**changes), plan(**changes).values())


def test_every_listener_of_the_mesh_is_looked_at():
    assert {use.port for use in uses()} == {8080, 9901, 18000, 18001, 18002, 18003, 18100, 18120, 18140, 18200, 18220}


def test_a_mesh_with_a_first_port_of_its_own_meets_no_other():
    def ports(first):
        network = load_config(PROFILE, overrides_from(first)).network
        found = uses(network=network.model_dump())
        assert find_conflicts(found, lambda _host, _port: None) == ()
        return [use.port for use in found]

    mine, other = ports(20_000), ports(21_000)
    assert 20_000 in mine
    assert min(mine) == 20_000
    assert max(mine) < 21_000
    assert [port + 1000 for port in mine] == other
    assert load_config(PROFILE, overrides_from(20_000)).network.ingress_port == 20_000


def test_free_ports_are_no_conflict():
    assert find_conflicts(uses(), lambda _host, _port: None) == ()


def test_a_busy_port_is_named_with_its_user_its_key_and_its_override():
    (conflict,) = find_conflicts(uses(), lambda _host, port: "is taken by nginx (pid 7)" if port == 9901 else None)
    text = str(conflict)
    for part in ("9901", "admin", "nginx (pid 7)", "network.admin_port", "TIERMESH__NETWORK__ADMIN_PORT"):
        assert part in text


def test_a_busy_port_of_a_replica_names_the_base_port():
    (conflict,) = find_conflicts(uses(), lambda _host, port: "is taken" if port == 18220 else None)
    assert "engine-l1-0" in str(conflict)
    assert "network.service_port_base" in str(conflict)


def test_a_port_given_to_two_parts_is_a_conflict():
    (conflict,) = find_conflicts(uses(network={"admin_port": 8080}), lambda _host, _port: None)
    assert "also wanted" in str(conflict)


def test_a_port_beyond_the_last_one_is_a_conflict():
    found = find_conflicts(uses(network={"service_port_base": 65530}), lambda _host, _port: None)
    assert found
    assert all("beyond 65535" in str(conflict) for conflict in found)


@pytest.fixture
def listening():
    with socket.socket() as server:
        server.bind(("127.0.0.1", 0))
        server.listen()
        yield server.getsockname()[1]


def test_a_listener_of_this_machine_is_found_and_named(listening):
    why = why_unusable("127.0.0.1", listening)
    assert why is not None
    assert f"pid {os.getpid()}" in why


def test_a_port_is_free_again_after_its_listener(listening):
    with socket.socket() as server:
        server.bind(("127.0.0.1", 0))
        server.listen()
        port = server.getsockname()[1]
    assert why_unusable("127.0.0.1", port) is None


def test_a_host_that_is_not_ours_is_told_apart_from_a_busy_port():
    why = why_unusable("192.0.2.1", 18000)
    assert why is not None
    assert "taken" not in why


def test_the_check_names_every_conflict_and_what_to_do(listening):
    changes = {"network": {"admin_port": listening, "mesh_port": listening}}
    with pytest.raises(LocalError, match="2 port") as caught:
        check_ports(config_of(**changes), [])
    assert "What to do" in str(caught.value)
