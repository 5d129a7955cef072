"""Where answers are filed."""

from harness.answers import fingerprint
from tiermesh.cache.keys import generation_key, place_of, tenant_prefix


def test_a_key_names_nobody():
    place = place_of("acme", fingerprint("my secret"))
    assert b"acme" not in place.entry + place.generation
    assert fingerprint("my secret").hex().encode() not in place.entry
    assert place.label in place.entry.decode()
    assert len(place.label) == 8


def test_tenants_and_fingerprints_never_share_a_key():
    places = {place_of(t, fingerprint(q)).entry for t in ("a", "b", "租户") for q in ("x", "y")}
    assert len(places) == 6


def test_a_tenant_name_cannot_run_into_the_fingerprint():
    digits = fingerprint("x").hex()
    assert place_of("a", fingerprint("x")).entry != place_of("a" + digits[:2], fingerprint("x")[1:]).entry


def test_everything_of_a_tenant_has_its_prefix():
    place = place_of("acme", fingerprint("x"))
    assert place.entry.startswith(tenant_prefix("acme"))
    assert place.generation == generation_key("acme")
    assert place.generation.startswith(tenant_prefix("acme"))
    assert not place.entry.startswith(tenant_prefix("acme2"))


def test_the_layout_of_keys_is_a_contract():
    place = place_of("local", bytes(32))
    assert place.generation == b"tiermesh:cache:1:25bf8e1a2393f110:generation"
    assert place.entry.startswith(b"tiermesh:cache:1:25bf8e1a2393f110:")
    assert len(place.entry) == len(b"tiermesh:cache:1:25bf8e1a2393f110:") + 64
