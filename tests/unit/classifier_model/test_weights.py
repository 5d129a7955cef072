"""Weights: read back as they were written, and refused where they are not what they should be."""

import json
import shutil
from dataclasses import replace
from importlib.resources import files

import numpy as np
import pytest
from tiermesh.classifier import model as package
from tiermesh.classifier.model import ModelUnusable, load_builtin, load_weights, open_model
from tiermesh.classifier.model.weights import save_weights


@pytest.fixture(scope="module")
def builtin():
    return load_builtin()


@pytest.fixture
def folder(tmp_path):
    shutil.copytree(str(files(package.__name__) / "builtin"), tmp_path / "model")
    return tmp_path / "model"


def change(folder, **values):
    path = folder / "model.json"
    path.write_text(json.dumps(json.loads(path.read_text("utf-8")) | values), "utf-8")


def test_the_shipped_weights_know_every_task_type_and_are_a_few_megabytes(builtin):
    assert len(builtin.task_types) == len(set(builtin.task_types)) == 14
    assert builtin.facts["bytes"] < 5_000_000


def test_a_flipped_byte_is_noticed(folder):
    raw = bytearray((folder / "model.npz").read_bytes())
    raw[len(raw) // 2] ^= 1
    (folder / "model.npz").write_bytes(raw)
    with pytest.raises(ModelUnusable, match=r"is damaged: SHA-256 is .*make train-classifier"):
        load_weights(folder)


@pytest.mark.parametrize(
    ("values", "says"),
    [
        ({"format": 2}, "format 2; this version reads format 1"),
        ({"file": "gone.npz"}, "cannot be read"),
        ({"task_types": ["greeting"]}, "of shape"),
        ({"task_types": ["dancing"]}, "unknown task types: dancing"),
    ],
)
def test_a_manifest_that_does_not_fit_is_refused(folder, values, says):
    change(folder, **values)
    with pytest.raises(ModelUnusable, match=says):
        load_weights(folder)


def test_a_missing_folder_is_refused(tmp_path):
    with pytest.raises(ModelUnusable, match="cannot be read"):
        open_model(str(tmp_path / "none"), timeout_s=1)


def test_off_opens_nothing():
    assert open_model("off", timeout_s=1) is None


def test_values_that_are_not_finite_are_refused(builtin, tmp_path):
    save_weights(tmp_path, replace(builtin, bias=np.full_like(builtin.bias, np.nan)), {})
    with pytest.raises(ModelUnusable, match="not finite"):
        load_weights(tmp_path)


def test_a_version_names_the_weights(builtin, tmp_path):
    first = save_weights(tmp_path / "a", builtin, {})
    again = save_weights(tmp_path / "b", builtin, {})
    other = save_weights(tmp_path / "c", replace(builtin, bias=builtin.bias + 1), {})
    assert first == again != other
    assert load_weights(tmp_path / "a").version == first
