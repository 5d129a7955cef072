"""Reading the configuration file: inheritance, overrides, and errors that name file, key and allowed values."""

import asyncio
from pathlib import Path

import pytest
from tiermesh.shared.config import ConfigError, load_config, watch_config

ROOT = Path(__file__).resolve().parents[3]
MINIMAL = """
tenants: [{name: local, key_env: KEYS}]
tiers:
  - {name: l0, backend: rules}
  - {name: l1, backend: simulated, model: m, slots: 4}
"""


def write(folder, text, name="mesh.yaml"):
    path = folder / name
    path.write_text(text, encoding="utf-8")
    return path


@pytest.mark.parametrize("profile", ["local", "lite", "laptop"])
def test_shipped_profiles_load(profile):
    config = load_config(ROOT / "mesh" / "profiles" / f"{profile}.yaml")
    assert [tier.name for tier in config.tiers] == ["l0", "l1", "l2"]
    assert config.network.bind == "127.0.0.1"
    assert config.rules == ROOT / "mesh" / "profiles" / "rules.yaml"


def test_lite_simulates_and_says_so():
    config = load_config(ROOT / "mesh" / "profiles" / "lite.yaml")
    assert [tier.backend for tier in config.tiers] == ["rules", "simulated", "simulated"]
    assert all("simulated" in tier.public_model for tier in config.tiers[1:])


def test_extends_merges_named_lists_by_name(tmp_path):
    write(tmp_path, MINIMAL, "base.yaml")
    over = write(
        tmp_path, "extends: base.yaml\ntiers:\n  - {name: l1, replicas: 2}\n  - {name: l2, backend: simulated}\n"
    )
    config = load_config(over)
    assert [(t.name, t.replicas) for t in config.tiers] == [("l0", 1), ("l1", 2), ("l2", 1)]
    assert config.tier("l1").slots == 4


def test_environment_overrides_one_key(tmp_path):
    environ = {"TIERMESH__NETWORK__INGRESS_PORT": "9090", "UNRELATED": "1"}
    config = load_config(write(tmp_path, MINIMAL), environ)
    assert config.network.ingress_port == 9090
    assert config.network.admin_port == 9901


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (MINIMAL + "cachee: {}\n", ["mesh.yaml", "cachee", "unknown key", "cache,", "tiers"]),
        (MINIMAL + "network: {ingres_port: 1}\n", ["network.ingres_port", "ingress_port", "admin_port"]),
        (MINIMAL.replace("slots: 4", "slot: 4"), ["tiers.1.slot", "slots", "queue"]),
        (MINIMAL.replace("simulated", "magic"), ["tiers.1.backend", "'rules', 'vllm' or 'simulated'", "magic"]),
        (MINIMAL.replace("slots: 4", "slots: 0"), ["tiers.1.slots", "greater than or equal to 1", "given: 0"]),
        (MINIMAL.replace("l1", "l0"), ["tier names must be unique", "l0"]),
        (MINIMAL + "deadlines: {default_ms: 10, max_ms: 5}\n", ["deadlines", "default_ms (10)", "max_ms (5)"]),
        (MINIMAL + "breakers: {interactive_requests: 5}\n", ["breakers", "batch_requests (1024)", "(5)"]),
        ("tiers: [{name: l0, backend: rules}]\n", ["tenants", "Field required"]),
        ("tenants: [{name: a}]\ntiers: [{name: l0, backend: rules}]\n", ["exactly one of key_file and key_env"]),
        ("- just\n- a list\n", ["must be a mapping", "list"]),
        ("a: [unclosed\n", ["not valid YAML"]),
        ("extends: mesh.yaml\n", ["extends itself"]),
        ("extends: gone.yaml\n", ["gone.yaml", "cannot be read"]),
    ],
)
def test_errors_name_file_key_and_allowed_values(tmp_path, text, expected):
    with pytest.raises(ConfigError) as caught:
        load_config(write(tmp_path, text))
    assert str(tmp_path) in str(caught.value)
    for part in expected:
        assert part in str(caught.value)


async def test_watch_yields_changes_and_errors_and_goes_on(tmp_path):
    path = write(tmp_path, MINIMAL)
    changes = watch_config(path)
    # Once when it has begun to watch, with what is there then.
    first = await anext(changes)
    assert not isinstance(first, ConfigError)
    assert first.tier("l1").slots == 4
    write(tmp_path, MINIMAL.replace("slots: 4", "slots: 5"))
    async with asyncio.timeout(60):
        while isinstance(last := await anext(changes), ConfigError) or last.tier("l1").slots != 5:
            pass
    write(tmp_path, "tiers: nonsense\n")
    async with asyncio.timeout(60):
        while not isinstance(await anext(changes), ConfigError):
            pass
    # Replaced by renaming, as editors and Kubernetes do.
    write(tmp_path, MINIMAL.replace("slots: 4", "slots: 7"), "new.yaml").rename(path)
    async with asyncio.timeout(60):
        while isinstance(last := await anext(changes), ConfigError) or last.tier("l1").slots != 7:
            pass
    await changes.aclose()
