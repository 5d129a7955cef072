"""The switch in the configuration."""

from pathlib import Path

import pytest
from pydantic import ValidationError
from tiermesh.shared.config import ConfigError, load_config

LOCAL = Path(__file__).parents[3] / "mesh" / "profiles" / "local.yaml"


def test_the_packaged_model_is_the_default():
    assert load_config(LOCAL, {}).classifier.model == "builtin"


@pytest.mark.parametrize("written", ["off", "'off'", "false"])
def test_off_may_be_written_as_people_write_it(written):
    assert load_config(LOCAL, {"TIERMESH__CLASSIFIER__MODEL": written}).classifier.model == "off"


def test_a_wait_of_nothing_is_refused():
    with pytest.raises((ConfigError, ValidationError), match="model_timeout_ms"):
        load_config(LOCAL, {"TIERMESH__CLASSIFIER__MODEL_TIMEOUT_MS": "0"})
