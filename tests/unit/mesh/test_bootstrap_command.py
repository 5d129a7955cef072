"""`python -m tiermesh.mesh bootstrap`: what it writes for an Envoy, and what it refuses."""

from __future__ import annotations

import pytest
import yaml
from harness.certificates import Authority, SecretVolume
from tiermesh.mesh.command import print_bootstrap

ROUTER = "tiermesh-router.svc"


@pytest.fixture
def arguments(tmp_path):
    """Returns a maker of arguments for an Envoy with TLS on every way."""
    authority = Authority()
    own = SecretVolume(tmp_path / "own", authority.pem_for(ROUTER, "tiermesh-ingress.svc")).settings
    public = SecretVolume(tmp_path / "public", authority.pem_for("mesh.example")).settings
    (tmp_path / "envoy").mkdir()

    def make(role, *more, out="envoy", **changes):
        public_files = {key: public[key] for key in ("certificate", "private_key")}
        values = {
            "tenants": [{"name": "acme", "key_env": "K"}],
            "tiers": [{"name": "l1", "backend": "rules"}],
            "discovery": {"mode": "dns", "dns_suffix": ".svc"},
            "tls": {
                "mesh": True,
                "control_plane": True,
                **own,
                "envoy_folder": str(tmp_path / "envoy"),
                "ingress": {"enabled": True, **public_files},
                **changes,
            },
        }
        (tmp_path / "mesh.yaml").write_text(yaml.safe_dump(values))
        folder = ["--out", str(tmp_path / out)] if out else []
        return ["--config", str(tmp_path / "mesh.yaml"), "--role", role, *folder, *more]

    return make


@pytest.mark.parametrize(
    ("role", "files"),
    [
        ("ingress", {"envoy.yaml", "own-certificate.yaml", "authorities.yaml", "ingress-certificate.yaml"}),
        ("sidecar", {"envoy.yaml", "own-certificate.yaml", "authorities.yaml"}),
    ],
)
def test_an_envoy_gets_the_files_that_its_configuration_names(arguments, tmp_path, role, files):
    assert print_bootstrap(arguments(role, "--service", "router")) == 0
    assert {path.name for path in (tmp_path / "envoy").iterdir()} == files
    bootstrap = (tmp_path / "envoy/envoy.yaml").read_text()
    assert str(tmp_path / "envoy/own-certificate.yaml") in bootstrap
    # Places, never contents.
    assert "PRIVATE KEY" not in "".join(path.read_text() for path in (tmp_path / "envoy").iterdir())


def test_without_tls_it_prints(arguments, capsys):
    off = {"mesh": False, "control_plane": False, "ingress": {}}
    assert print_bootstrap(arguments("sidecar", out=None, **off)) == 0
    assert "transport_socket" not in capsys.readouterr().out


@pytest.mark.parametrize("out", [None, "elsewhere"])
def test_files_are_where_the_control_plane_will_say_that_they_are(arguments, capsys, out):
    assert print_bootstrap(arguments("sidecar", out=out)) == 2
    assert "tls.envoy_folder: give --out" in capsys.readouterr().err


def test_a_certificate_of_somebody_else_is_told(arguments, capsys, tmp_path):
    assert print_bootstrap(arguments("sidecar", "--service", "cache")) == 2
    told = capsys.readouterr().err
    assert "is not for tiermesh-cache.svc" in told
    assert ROUTER in told
    assert not list((tmp_path / "envoy").iterdir())


def test_the_public_certificate_matters_to_the_ingress_alone(arguments, capsys, tmp_path):
    (tmp_path / "public/tls.crt").unlink()
    assert print_bootstrap(arguments("sidecar", "--service", "router")) == 0
    assert print_bootstrap(arguments("ingress")) == 2
    assert "tls.ingress.certificate: " in capsys.readouterr().err
