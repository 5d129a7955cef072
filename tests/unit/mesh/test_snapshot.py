"""Snapshots: versions by content, and a check that names what is wrong."""

import subprocess
import sys

import pytest
from harness.xds import CDS, EDS, LDS, RDS, cluster, endpoints, listener, routes, snapshot
from tiermesh.mesh.cache import SnapshotCache
from tiermesh.mesh.snapshot import InconsistentSnapshot, Snapshot, subset_version


def test_a_version_depends_on_content_alone():
    assert snapshot("a", "b").version == snapshot("a", "b").version
    ordered, reversed_order = snapshot("a", "b").of_type(CDS), snapshot("b", "a").of_type(CDS)
    assert subset_version(ordered.values()) == subset_version(reversed_order.values())
    assert snapshot("a", "b").version != snapshot("a", "b", a=9).version
    one, other = snapshot("a", a=1), snapshot("a", a=2)
    assert one.of_type(CDS)["a"].version == other.of_type(CDS)["a"].version
    assert one.of_type(EDS)["a"].version != other.of_type(EDS)["a"].version


def test_a_restarted_control_plane_has_the_same_versions():
    code = (
        "from pathlib import Path\n"
        "from tiermesh.mesh.api_keys import ApiKeys\n"
        "from tiermesh.mesh.topology import make_snapshot\n"
        "from tiermesh.shared.config import parse_config\n"
        "c = parse_config({'tenants': [{'name': 'a', 'key_env': 'K'}], 'tiers': [{'name': 'l1', 'backend': 'rules'}],"
        " 'logging': {'access': True}}, Path('/x/mesh.yaml'))\n"
        "print(make_snapshot(c, ApiKeys({'a': ('12345678',)}), role='local', traces='http://127.0.0.1:1').version)\n"
    )
    runs = [
        subprocess.run(
            [sys.executable, "-c", code], env={"PYTHONHASHSEED": seed}, capture_output=True, text=True, check=True
        )
        for seed in ("1", "2")
    ]
    assert runs[0].stdout == runs[1].stdout != ""


def test_a_snapshot_cannot_be_changed():
    with pytest.raises(TypeError):
        snapshot("a").of_type(CDS)["b"] = None
    with pytest.raises(AttributeError):
        snapshot("a").resources = {}


@pytest.mark.parametrize(
    ("parts", "reason"),
    [
        ({"clusters": [cluster("a")]}, "cluster refers to endpoints 'a'"),
        ({"endpoints": [endpoints("a")]}, "endpoints 'a' belong to no cluster"),
        ({"listeners": [listener("door")]}, "listener refers to routes 'door'"),
        ({"routes": [routes("door")]}, "routes 'door' belong to no listener"),
        (
            {"listeners": [listener("door")], "routes": [routes("door", "ghost")]},
            "routes 'door', host 'ghost': cluster 'ghost' is not in the snapshot",
        ),
    ],
)
def test_an_inconsistent_snapshot_is_refused_with_the_reason(parts, reason):
    with pytest.raises(InconsistentSnapshot, match=reason.replace("(", r"\(")):
        Snapshot.of(**parts).check()


def test_all_problems_are_named_at_once():
    broken = Snapshot.of(clusters=[cluster("a")], listeners=[listener("door")])
    with pytest.raises(InconsistentSnapshot) as caught:
        broken.check()
    assert "'a'" in str(caught.value)
    assert "'door'" in str(caught.value)


def test_the_cache_keeps_the_last_good_one_and_wakes_nobody_for_a_bad_one():
    cache, woken = SnapshotCache(), []
    good = snapshot("a")
    assert cache.get("local") is None
    with cache.watching(lambda: woken.append(1)):
        assert cache.publish({"local": good})
        with pytest.raises(InconsistentSnapshot):
            cache.publish({"local": Snapshot.of(clusters=[cluster("x")])})
        assert cache.get("local") is good
        assert not cache.publish({"local": snapshot("a")})
        assert woken == [1]
        assert cache.publish({"local": snapshot("a", "b")})
        assert woken == [1, 1]
    cache.publish({"local": snapshot("c")})
    assert woken == [1, 1]


def test_all_roles_are_published_together_or_none():
    cache = SnapshotCache()
    cache.publish({"local": snapshot("a"), "ingress": snapshot("a")})
    with pytest.raises(InconsistentSnapshot):
        cache.publish({"local": snapshot("b"), "ingress": Snapshot.of(clusters=[cluster("x")])})
    assert cache.get("local").of_type(LDS).keys() == {"door"}
    assert cache.get("local").of_type(RDS)["door"].version == snapshot("a").of_type(RDS)["door"].version
