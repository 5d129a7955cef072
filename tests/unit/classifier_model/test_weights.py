"""Weights: read back as they were written, and refused where they are not what they should be."""

import json
import shutil
from dataclasses import fields, replace
from importlib.resources import files

import numpy as np
import pytest
from design import features_of
from tiermesh.classifier import model as package
from tiermesh.classifier.model import ModelUnusable, load_builtin, load_weights, open_model
from tiermesh.classifier.model.grams import read_grams
from tiermesh.classifier.model.linear import LinearModel
from tiermesh.classifier.model.structure import NAMES, read_structure
from tiermesh.classifier.model.subjects import OUTCOMES, SHARED_ROWS, Subjects
from tiermesh.classifier.model.weights import save_weights

FIELDS = [field.name for field in fields(Subjects)]


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
        ({"format": 3}, "format 3; this version reads formats 1 and 2"),
        ({"format": 2}, "does not hold what it should"),
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


@pytest.fixture
def with_subjects(builtin):
    """The shipped model with a second opinion about two subjects."""
    rng = np.random.default_rng(1)
    numbers = len(NAMES) + 5 + OUTCOMES
    subjects = Subjects(
        table=rng.integers(-9, 9, (SHARED_ROWS, 2 + OUTCOMES)).astype(np.int8),
        step=np.full(1, 0.05, np.float32),
        prior=np.zeros(2 + OUTCOMES, np.float32),
        right=np.array([[0.2, 0.9], [0.8, 0.9]], np.float32),
        mean=np.zeros(numbers, np.float32),
        spread=np.ones(numbers, np.float32),
        landmarks=rng.normal(size=(3, numbers)).astype(np.float32),
        width=np.full(1, 0.02, np.float32),
        weights=rng.normal(size=(3, 2)).astype(np.float32),
        bias=np.array([0.6, 0.9], np.float32),
    )
    return replace(builtin, subjects=subjects)


def test_a_second_opinion_is_read_back_and_counts_half(with_subjects, builtin, tmp_path):
    columns = replace(with_subjects.subjects, table=np.asfortranarray(with_subjects.subjects.table))
    save_weights(tmp_path, replace(with_subjects, subjects=columns), {})
    read = load_weights(tmp_path)
    assert read.subjects.table.flags.c_contiguous
    assert all(np.array_equal(getattr(read.subjects, name), getattr(with_subjects.subjects, name)) for name in FIELDS)
    features = features_of("Why do rivers meander?")
    alone, both = (LinearModel(weights).scores([features])[0] for weights in (builtin, read))
    said = read.subjects.opinion(read_grams(features.text), read_structure(features))
    assert both[-2:] == pytest.approx((alone[-2:] + said) / 2, abs=1e-5)
    assert np.array_equal(both[:-2], alone[:-2])


def test_a_second_opinion_that_does_not_fit_is_refused(with_subjects, tmp_path):
    short = replace(with_subjects.subjects, landmarks=with_subjects.subjects.landmarks[:, 1:])
    save_weights(tmp_path, replace(with_subjects, subjects=short), {})
    with pytest.raises(ModelUnusable, match="subjects_landmarks of shape"):
        load_weights(tmp_path)
