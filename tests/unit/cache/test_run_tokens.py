"""Names of runs, and claims of them."""

import pytest
from redis.crc import key_slot
from tiermesh.cache.keys import place_of
from tiermesh.cache.run_tokens import Claimant, ClaimText, RunKeys, check_claimant, check_run_token, moment_of
from tiermesh.cache.tokens import tombstone
from tiermesh.shared.errors import InvalidRequest

PARENT = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
GENERATION = b"12345678"
PLAIN, TAGGED = RunKeys(), RunKeys(tagged=True)


def token(tenant="acme", fingerprint=b"\1" * 32, random=b"\2" * 8, moment=GENERATION):
    return Claimant(place_of(tenant, fingerprint).digest, random, "r", PARENT).at(moment).token


@pytest.mark.parametrize("keys", [PLAIN, TAGGED])
def test_a_token_names_the_request_the_tenant_the_moment_and_the_run(keys):
    check_run_token(token())
    assert keys.claim(token()) == keys.claim(token(random=b"\3" * 8)), "one claim a request"
    others = token("globex"), token(fingerprint=b"\4" * 32), token(moment=b"87654321")
    assert len({keys.claim(each) for each in (token(), *others)}) == 4
    assert keys.events(token()) != keys.events(token(random=b"\3" * 8)), "each run has events of its own"
    assert keys.followers(token()) != keys.followers(token(random=b"\3" * 8))
    assert b"acme" not in keys.claim(token()) + keys.events(token())


def test_the_moment_is_what_an_invalidation_changes():
    marks = [None, b"\1 an answer, whichever", tombstone(b"a" * 8), tombstone(b"b" * 8)]
    assert [moment_of(GENERATION, value) for value in marks[:2]] == [GENERATION] * 2
    assert len({moment_of(GENERATION, value) for value in marks}) == 3


def test_in_a_cluster_a_runs_keys_are_in_one_slot_and_a_routers_too():
    of_run = {key_slot(key) for key in (TAGGED.claim(token()), TAGGED.events(token()), TAGGED.followers(token()))}
    of_router = {key_slot(key) for key in (TAGGED.alive("r1"), TAGGED.wanted("r1"))}
    assert (len(of_run), len(of_router)) == (1, 1)


def test_on_one_server_replicas_of_an_earlier_release_find_what_is_said_under_a_token():
    name = "a" * 64 + "-" + "b" * 16
    assert PLAIN.claim(name) == b"tiermesh:run:1:" + b"a" * 64
    assert PLAIN.events(name) == b"tiermesh:run:1:events:" + name.encode()
    assert PLAIN.followers(name) == b"tiermesh:run:1:followers:" + name.encode()
    assert PLAIN.alive("r1") == b"tiermesh:run:1:alive:r1"
    assert PLAIN.wanted("r1") == b"tiermesh:run:1:wanted:r1"


@pytest.mark.parametrize("trace_parent", [PARENT, ""])
def test_a_claim_survives_the_store(trace_parent):
    claim = ClaimText(token(), "router-1", trace_parent)
    assert ClaimText.decode(claim.encode()) == claim


@pytest.mark.parametrize(
    "raw", [b"", b"nonsense", b"a b c", b"\xff\xfe x y", token().encode(), f"{token()} r".encode()]
)
def test_what_is_no_claim_is_none(raw):
    assert ClaimText.decode(raw) is None


@pytest.mark.parametrize("wrong", ["", "x", token()[:-1], token().upper(), token() + "0", "*" * 81])
def test_a_token_is_checked_before_it_reaches_the_store(wrong):
    with pytest.raises(InvalidRequest) as caught:
        check_run_token(wrong)
    assert caught.value.field == "token"


@pytest.mark.parametrize(("router", "parent"), [("", PARENT), ("a b", PARENT), ("x" * 65, ""), ("r", "no parent")])
def test_a_claimant_is_checked_too(router, parent):
    with pytest.raises(InvalidRequest):
        check_claimant(router, parent, field="claim")
