"""Publishing: sound configurations are served, others are refused with a reason and change nothing."""

from pathlib import Path

import pytest
from tiermesh.mesh.api_keys import ApiKeys, key_files, read_api_keys
from tiermesh.mesh.cache import SnapshotCache
from tiermesh.mesh.publisher import Publisher
from tiermesh.shared.config import ConfigError, parse_config
from tiermesh.shared.testing import FakeClock

KEYS = ApiKeys({"acme": ("key-one-1234",)})


def config(**sections):
    values = {"tenants": [{"name": "acme", "key_env": "K"}], "tiers": [{"name": "l1", "backend": "rules"}], **sections}
    return parse_config(values, Path("/etc/mesh.yaml"))


class Setting:
    def __init__(self):
        self.cache, self.clock, self.keys = SnapshotCache(), FakeClock(), KEYS
        self.publisher = Publisher(self.cache, read_keys=self.read, environ={}, clock=self.clock)

    def read(self, _):
        if isinstance(self.keys, ConfigError):
            raise self.keys
        return self.keys


@pytest.fixture
def setting():
    return Setting()


def test_a_sound_configuration_is_published_for_every_role(setting):
    assert setting.publisher.offer(config())
    assert setting.publisher.published.wall_time == setting.clock.wall()
    assert all(setting.cache.get(role) for role in ("local", "ingress", "sidecar"))
    assert setting.publisher.published.version == setting.cache.get("local").version


@pytest.mark.parametrize(
    ("offer", "reason"),
    [
        (ConfigError("mesh.yaml: tiers: too few"), "tiers: too few"),
        (config(network={"ingress_port": 9}), "network.ingress_port"),
        (config(tls={"envoy_folder": "/elsewhere"}), "tls.envoy_folder"),
        (config(discovery={"mode": "dns"}), "discovery.mode"),
    ],
)
def test_what_is_not_sound_is_refused_and_the_last_good_keeps_serving(setting, offer, reason):
    setting.publisher.offer(config())
    before = setting.cache.get("local")
    assert not setting.publisher.offer(offer)
    assert reason in setting.publisher.rejection
    assert setting.cache.get("local") is before
    assert setting.publisher.offer(config())
    assert setting.publisher.rejection == ""


def test_a_trace_endpoint_that_is_no_url_is_refused():
    setting = Setting()
    setting.publisher.offer(config(discovery={"mode": "dns"}))
    bad = config(discovery={"mode": "dns"}, tracing={"otlp_endpoint": "http://"})
    assert not setting.publisher.offer(bad)
    assert "must be a URL" in setting.publisher.rejection


def test_keys_are_read_again_on_refresh(setting):
    assert not setting.publisher.refresh()
    setting.publisher.offer(config())
    version = setting.publisher.published.version
    setting.keys = ConfigError("tenant 'acme': key_file is gone")
    assert not setting.publisher.refresh()
    assert setting.publisher.published.version == version
    setting.keys = ApiKeys({"acme": ("key-two-1234",)})
    assert setting.publisher.refresh()
    assert setting.publisher.published.version != version


def test_new_keys_are_served_while_the_file_cannot_be_read_and_its_fault_stays_known(setting):
    setting.publisher.offer(config())
    version = setting.publisher.published.version
    assert not setting.publisher.offer(ConfigError("mesh.yaml: no YAML"))
    setting.keys = ApiKeys({"acme": ("key-two-1234",)})
    assert setting.publisher.refresh()
    assert setting.publisher.published.version != version
    assert setting.publisher.rejection == "mesh.yaml: no YAML"


def test_a_change_that_envoy_does_not_see_keeps_version_and_time(setting):
    setting.publisher.offer(config())
    first = setting.publisher.published
    setting.clock.advance(5)
    assert setting.publisher.offer(config(tiers=[{"name": "l1", "backend": "rules", "price_in": 3.0}]))
    assert setting.publisher.published.version == first.version
    assert setting.publisher.published.wall_time == first.wall_time
    assert setting.publisher.published.config.tiers[0].price_in == 3.0


def tenants(*specs):
    return config(tenants=[{"name": name, **source} for name, source in specs])


def test_keys_come_from_files_and_environment(tmp_path):
    (tmp_path / "keys").mkdir()
    (tmp_path / "keys" / "acme").write_text("# a comment\nfirst-key-1\n\nsecond-key-2\nfirst-key-1\n")
    both = tenants(("acme", {"key_file": "keys/acme"}), ("globex", {"key_env": "GLOBEX"}))
    keys = read_api_keys(both, tmp_path, {"GLOBEX": "third-key-3, fourth-key-4"})
    assert list(keys.pairs()) == [
        ("first-key-1", "acme"),
        ("second-key-2", "acme"),
        ("third-key-3", "globex"),
        ("fourth-key-4", "globex"),
    ]
    assert key_files(both, tmp_path) == (tmp_path / "keys" / "acme",)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (None, "cannot be read"),
        ("", "holds no API key"),
        ("# nothing\n", "holds no API key"),
        ("short", "at least 8"),
        ("has a blank in it", "without blanks"),
        ("schlüssel-12", "ASCII"),
        ("密钥密钥密钥密钥密钥", "ASCII"),
    ],
)
def test_unusable_keys_are_refused_by_number_and_never_shown(tmp_path, text, reason):
    if text is not None:
        (tmp_path / "acme").write_text(text)
    with pytest.raises(ConfigError, match=reason) as caught:
        read_api_keys(tenants(("acme", {"key_file": "acme"})), tmp_path, {})
    assert "tenant 'acme'" in str(caught.value)
    assert not text or text.startswith("#") or text not in str(caught.value)


def test_a_key_of_two_tenants_is_refused():
    both = tenants(("acme", {"key_env": "A"}), ("globex", {"key_env": "B"}))
    with pytest.raises(ConfigError, match="also a key of tenant 'acme'") as caught:
        read_api_keys(both, Path("/"), {"A": "shared-key-1", "B": "shared-key-1"})
    assert "shared-key-1" not in str(caught.value)
