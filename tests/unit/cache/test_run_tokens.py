"""Names of runs, and claims of them."""

import pytest
from tiermesh.cache.keys import place_of
from tiermesh.cache.run_tokens import (
    ClaimText,
    check_claimant,
    check_run_token,
    claim_key,
    events_key,
    followers_key,
    make_token,
)
from tiermesh.shared.errors import InvalidRequest

PARENT = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"


def token(tenant="acme", fingerprint=b"\1" * 32, random=b"\2" * 8):
    return make_token(place_of(tenant, fingerprint).digest, random)


def test_a_token_names_the_request_the_tenant_and_the_run():
    check_run_token(token())
    assert claim_key(token()) == claim_key(token(random=b"\3" * 8)), "one claim a request"
    assert len({claim_key(token()), claim_key(token("globex")), claim_key(token(fingerprint=b"\4" * 32))}) == 3
    assert events_key(token()) != events_key(token(random=b"\3" * 8)), "each run has events of its own"
    assert followers_key(token()) != followers_key(token(random=b"\3" * 8))
    assert b"acme" not in claim_key(token()) + events_key(token())


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
