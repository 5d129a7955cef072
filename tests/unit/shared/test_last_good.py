"""A configuration file that has become wrong stops nobody who was there before."""

import pytest
from tiermesh.shared.config import ConfigError, keep_last_good, load_config, load_or_last_good

GOOD = "tenants: [{name: local, key_env: KEYS}]\ntiers: [{name: l0, backend: rules}, {name: l1, backend: simulated}]\n"


def test_the_last_accepted_one_serves_while_the_file_is_wrong(tmp_path):
    path, state = tmp_path / "mesh.yaml", tmp_path / "state"
    path.write_text(GOOD, encoding="utf-8")
    accepted = load_config(path)
    keep_last_good(accepted, state)
    path.write_text(GOOD + "tyers: []\n", encoding="utf-8")
    config, wrong = load_or_last_good(path, {}, state)
    assert config == accepted
    assert "tyers" in str(wrong)
    path.write_text(GOOD.replace("l1", "l9"), encoding="utf-8")
    config, wrong = load_or_last_good(path, {}, state)
    assert (config.tiers[1].name, wrong) == ("l9", None)


@pytest.mark.parametrize("kept", [None, "{", '{"tiers": []}'])
def test_without_a_usable_one_the_error_stands(tmp_path, kept):
    path = tmp_path / "mesh.yaml"
    path.write_text("tiers: 5\n", encoding="utf-8")
    if kept is not None:
        (tmp_path / "last-good.json").write_text(kept, encoding="utf-8")
    with pytest.raises(ConfigError, match="tiers"):
        load_or_last_good(path, {}, tmp_path)
