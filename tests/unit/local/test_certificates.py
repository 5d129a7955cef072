"""`tiermesh doctor` and the certificates that a configuration names."""

from datetime import UTC, datetime, timedelta

import pytest
from harness.certificates import Authority, SecretVolume
from tiermesh.mesh.local.certificates import check_certificates
from tiermesh.shared.config import parse_config
from tiermesh.shared.tls import Pem

NOW = datetime.now(UTC)


@pytest.fixture(scope="module")
def authority() -> Authority:
    return Authority()


def levels(folder, pem: Pem | None, *, now=NOW):
    """Returns what is found with these files in place."""
    files = SecretVolume(folder / "tls", pem).settings if pem else {}
    public = {key: path for key, path in files.items() if key != "trusted_ca"}
    config = parse_config(
        {
            "tenants": [{"name": "acme", "key_env": "K"}],
            "tiers": [{"name": "l1", "backend": "rules"}],
            "discovery": {"mode": "dns"},
            "tls": {"mesh": bool(pem), **files, "ingress": {"enabled": bool(pem), **public}},
        },
        folder / "mesh.yaml",
    )
    return check_certificates(config, now)


def test_nothing_is_said_where_tls_is_off(tmp_path):
    assert levels(tmp_path, None) == []


def test_sound_certificates_are_well_and_their_days_are_told(authority, tmp_path):
    own, public = levels(tmp_path, authority.pem_for("a"))
    assert (own.level, public.level) == ("ok", "ok")
    assert own.what.startswith("tls.certificate: ")
    assert "90 days" in own.what
    assert public.what.startswith("tls.ingress.certificate: ")


def test_what_ends_soon_is_a_warning(authority, tmp_path):
    found = levels(tmp_path, authority.pem_for("a"), now=NOW + timedelta(days=80))
    assert [one.level for one in found] == ["warning", "warning"]
    assert "ends in 10.0 days" in found[0].what


def test_an_authority_that_is_not_trusted_is_a_warning(authority, tmp_path):
    found = levels(tmp_path, authority.pem_for("a", trusted=Authority().pem))
    assert [one.level for one in found] == ["warning", "ok", "ok"]
    assert "ca.crt" in found[0].what


def test_what_peers_would_refuse_is_a_problem(authority, tmp_path):
    one = authority.issue("a", ends=-timedelta(hours=1))
    found = levels(tmp_path, Pem(one.pem, one.key_pem(), authority.pem))
    assert [one.level for one in found] == ["problem", "problem"]
    assert "expired" in found[0].what
